"""Parquet with modular encryption.

reader             reads one encrypted file with pyarrow
writer             writes one encrypted file with a new key
dictionary_policy  chooses the columns that get a dictionary
bloom_filters      chooses the columns that get a bloom filter
"""
