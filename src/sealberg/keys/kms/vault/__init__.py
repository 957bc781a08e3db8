"""HashiCorp Vault and OpenBao.

client     the transit engine as a KmsClient
config     the address of the server, and how to log in
responses  the server's responses as dictionaries or exceptions
"""
