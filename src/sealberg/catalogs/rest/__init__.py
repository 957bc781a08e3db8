"""REST catalogs: the server has the metadata, the client has the keys.

catalog           tables of a REST server
session           the HTTP session, guarded against what a server could send
responses         answers of the server, compared with what was sent and with earlier answers
keys              a server may not choose the key of new tables
pyiceberg_client  PyIceberg's REST client; its private names are used here only
"""
