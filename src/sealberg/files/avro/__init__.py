"""Avro data files inside AGS1.

data_file       reads and writes Arrow batches
container       the header and the blocks of an Avro file
row_counter     counts rows without decoding them
column_decoder  blocks to Arrow columns, with polars
column_encoder  Arrow columns to records, with NumPy
arrow_columns   these columns as the columns of a table, by field id
values          converts between Iceberg's types, Avro's schemas and the values of rows
"""
