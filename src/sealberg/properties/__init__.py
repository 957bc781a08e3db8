"""Every option, setting and property of Spark, Iceberg 1.12 and PyIceberg 0.12, and what sealberg does with it.

known           a name and its fate
values          what the value of a table property may be
table_names     properties of tables
catalog_names   properties of catalogs
spark_names     options of reads and writes, settings of sessions and applications
page            docs/properties.md, made from all of them
__main__        prints it: `python -m sealberg.properties > docs/properties.md`

A name that is in none of these tables is an error that lists the known names, with one exception: a property of a table
outside `table_names.JUDGED` is the user's own, as Iceberg allows. tests/test_properties.py goes over every entry, and
compares the tables with the names that PyIceberg and the Java sources define.
"""
