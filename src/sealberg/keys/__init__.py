"""Who may open what: no files, no tables.

kms        the KmsClient that every provider implements, and the way from properties to a client
remote     what all clients of a server share: retries, deadlines, one tree of errors
memory keystore vault aws gcp azure pkcs11    one client each, imported only when named
           (vault_settings and vault_answers: where a Vault is, and what it means by what it says)
keyring    a table's `encryption-keys` as an immutable value
manager    new file keys, the manifest-list keys, the KEKs above them
"""
