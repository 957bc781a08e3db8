"""SQL catalogs: SQLite, PostgreSQL, in memory.

catalog      PyIceberg's tables in a database
trust_table  what the catalog vouches for, in the same database
turn         whose turn it is to commit, among processes that share an SQLite file
"""
