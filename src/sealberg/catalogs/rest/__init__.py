"""REST catalogs: the server has the metadata, the client has the keys.

catalog           tables of a REST server
commits           commits to the server, and the check of each response
session           the HTTP session, with limits on what a server can send
responses         responses of the server, compared with the request and with earlier responses
keys              a server may not choose the key of new tables
pyiceberg_client  PyIceberg's REST client; its private names are used here only
"""
