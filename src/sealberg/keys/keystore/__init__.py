"""Master keys in a file encrypted with a passphrase: a KMS for one machine.

kms           the keystore as a KmsClient
age           the encryption of the file: age v1 with a passphrase
jwk           the content of the file: a JWK set (RFC 7517)
pkcs12        Java's keystore format, to share master keys with Java
der           the part of DER that PKCS12 needs
private_file  a file that only its owner may read, replaced atomically
"""
