"""Parquet with modular encryption.

reader             reads one encrypted file with pyarrow
writer             writes one encrypted file with a new key
module_walk        authenticates every module of a file without decoding values
modules            the modules of a file: kinds, AADs, cipher
footer             the footer, as far as it says where modules are
thrift             Thrift's compact protocol
dictionary_policy  chooses the columns that get a dictionary
bloom_filters      chooses the columns that get a bloom filter
"""
