"""Puffin files inside AGS1.

container        blobs, and the footer that describes them
deletion_vector  the deleted rows of a data file: the `deletion-vector-v1` blob
theta_sketch     numbers of distinct values: the `apache-datasketches-theta-v1` blob
value_hash       hashes of the values of a column, for its sketch
"""
