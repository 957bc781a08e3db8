"""Parquet under its own modular encryption.

reader             one encrypted file, read by pyarrow
writer             one encrypted file, written under a fresh key
dictionary_policy  which columns are worth a dictionary
bloom_filters      which columns get a bloom filter
"""
