"""Bytes in, bytes out: no I/O, no clock, no table. An auditor reads this folder in an hour.

aes_gcm        nonce | ciphertext | tag, the envelope of everything below
ags1           the AES-GCM stream around manifests, manifest lists, Avro and Puffin files
key_metadata   what a reader needs to open one file
"""
