"""Puffin files inside AGS1.

container        blobs, and the footer that describes them
deletion_vector  which rows of a data file are deleted: the `deletion-vector-v1` blob
"""
