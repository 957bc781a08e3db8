"""Who may open what: no files, no tables.

kms           the KmsClient that every provider implements, and the way from properties to a client
retry_policy  when a call to a KMS is tried again, and how long it may take
guarded       retries, time limits and typed errors around a client that somebody else wrote
remote        what all clients of a server share: retries, deadlines, one tree of errors
known_keys    a key that was not found, told with those that exist
local         wrapping with master keys that this process holds
memory keystore vault aws gcp azure pkcs11    one client each, imported only when named
              (vault_settings and vault_answers: where a Vault is, and what it means by what it says)
age jwk pkcs12 der private_file    the files of the local keystores
keyring       a table's `encryption-keys` as an immutable value
manager       new file keys, the manifest-list keys, the KEKs above them
kek_cache     unwrapped KEKs, for a while
audit         a line in the log of key use for each call to a KMS
file_keys     a fresh key for one file
tree          the tree of a table's keys, as far as it can be told without a key
per_process   a value that each process makes for itself, so that a fork inherits no lock
"""
