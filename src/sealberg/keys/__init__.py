"""Keys: how they are made, wrapped, unwrapped and stored. Nothing here knows files or tables.

kms          clients of key management services
keystore     master keys in a file encrypted with a passphrase: a KMS for one machine

keyring      a table's `encryption-keys` as an immutable value
long_keyring a ring of thousands of entries, made when somebody asks for them
manager      makes file keys and KEKs; seals and opens manifest-list keys
kek_cache    unwrapped KEKs, kept in memory for a limited time
file_key     a random key for one file
key_file     the key metadata of one file beside it, under a master key or in the clear
key_tree     the tree of a table's keys, from table metadata alone
java_order   the order in which Java meets keys, and an id that comes first in it
known_keys   adds the ids of existing keys to an error about a missing key
audit        the audit log: one line for each call to a KMS
per_process  a value that each process creates for itself, so that a fork inherits no lock
"""
