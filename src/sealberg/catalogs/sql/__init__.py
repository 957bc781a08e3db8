"""SQL catalogs: SQLite, PostgreSQL, in memory.

catalog      PyIceberg's tables in a database
trust_table  the table of trust in the same database, and statements with retries
turn         a file lock for writers that retry, among processes that share an SQLite file
"""
