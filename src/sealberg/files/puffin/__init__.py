"""Puffin files inside AGS1.

container        blobs, and the footer that describes them
deletion_vector  the deleted rows of a data file: the `deletion-vector-v1` blob
"""
