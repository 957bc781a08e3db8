"""One encrypted file: a key plus a place.

sources    anything with bytes at offsets: a path, a buffer, an open file, an object in a bucket
workers    the threads that seal and open blocks side by side
reader     SealedReader, a seekable stream of the plaintext of an AGS1 file
writer     SealedWriter, a stream that leaves an AGS1 file behind
whole      seal and open whole files and buffers
file_io    PyIceberg's FileIO for an encrypted table: opens what carries its key, refuses the rest
parquet parquet_write    Parquet under its own modular encryption, with a key of ours
dictionaries             which of its columns are worth one
avro avro_container avro_values    Avro data files inside AGS1, read by ranges
puffin deletion_vectors            deletion vectors, and the files that hold them
identify   what a file is, by its bytes
"""
