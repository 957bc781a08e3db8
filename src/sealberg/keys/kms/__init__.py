"""Clients of key management services. A client is imported only when a property names it.

client        KmsClient, the interface of all clients, and the factory that builds a client from properties
local         wrapping with master keys that this process holds
memory        master keys in memory, for tests
remote        the base class of clients that call a server: connections, retries, typed errors
retry_policy  when a call is retried, and how long it may take
guarded       retries, time limits and typed errors around a third-party client
java_class    a class of Java, which a JVM of Spark runs
aws gcp azure pkcs11 vault    one provider each
pkcs11_module  a PKCS#11 library loaded into this process, and the logins to its tokens
"""
