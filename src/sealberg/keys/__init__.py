"""Who may open what: keys, and nothing of files or tables.

kms          clients of key management services
keystore     master keys in a file under a passphrase: a KMS for one machine

keyring      a table's `encryption-keys` as an immutable value
manager      makes file keys and manifest-list keys, and the KEKs above them
kek_cache    unwrapped KEKs, kept for a while
file_key     a fresh key for one file
key_tree     the tree of a table's keys, as far as it can be seen without a key
known_keys   which keys exist, for errors about a key that does not
audit        a line in the log of key use for each call to a KMS
per_process  a value that each process makes for itself, so that a fork inherits no lock
"""
