"""Clients of key management services. A client is imported only when a property names it.

client        KmsClient, which every client implements, and the way from properties to a client
local         wrapping with master keys that this process holds
memory        master keys in memory, for tests
remote        what all clients of a server share: one way to retry, one tree of errors
retry_policy  when a call is tried again, and how long it may take
guarded       retries, time limits and typed errors around a client that a third party wrote
aws gcp azure pkcs11 vault    one provider each
"""
