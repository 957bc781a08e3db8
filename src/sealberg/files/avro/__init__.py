"""Avro data files inside AGS1.

data_file    reads and writes Arrow batches
container    the header and the blocks of an Avro file
row_counter  counts rows without decoding them
values       converts between Iceberg's types, Avro's schemas and Arrow's arrays
"""
