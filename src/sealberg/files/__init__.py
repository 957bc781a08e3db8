"""One encrypted file: a key plus a place.

sources    anything with bytes at offsets: a path, a buffer, an open file, an object in a bucket
workers    the threads that seal and open blocks side by side
reader     SealedReader, a seekable stream of the plaintext of an AGS1 file
writer     SealedWriter, a stream that leaves an AGS1 file behind
whole      seal and open whole files and buffers
identify   what a file is, by its bytes
"""
