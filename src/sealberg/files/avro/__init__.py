"""Avro data files inside AGS1.

data_file  Arrow batches in and out
container  the header and the blocks of an Avro file
values     between Iceberg's types, Avro's schemas and Arrow's arrays
"""
