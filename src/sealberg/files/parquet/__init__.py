"""Parquet with modular encryption.

reader             reads one encrypted file with pyarrow
writer             writes one encrypted file with a new key
file_walk          visits every part of a file in order; what a walk checks
module_walk        authenticates every module of an encrypted file without decoding values
plain_walk         the same parts of a plaintext file
spool              makes an encrypted file of what pyarrow writes into plaintext files only
module_sink        writes the modules of one new file
rewrap             copies a file under another key, or into or out of plaintext, without decoding values
modules            the modules of a file: kinds, AADs, cipher
footer             the footer, as far as it says where modules are
thrift             reads Thrift's compact protocol; thrift_writer: writes it
dictionary_policy  chooses the columns that get a dictionary
bloom_filters      chooses the columns that get a bloom filter
"""
