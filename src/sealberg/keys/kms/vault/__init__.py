"""HashiCorp Vault and OpenBao.

client     the transit engine as a KmsClient
config     where the server is, and how to log in
responses  what an answer of the server means
"""
