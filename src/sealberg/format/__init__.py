"""Bytes in, bytes out: no I/O, no clock, no table. An auditor reads this folder in an hour.

aes_gcm        nonce | ciphertext | tag, the layout of all sealed bytes
ags1           the AES-GCM stream around manifests, manifest lists, Avro and Puffin files
key_frames     errors without the frames in which a key was
key_metadata   the key, the AAD prefix and the length of one file
"""
