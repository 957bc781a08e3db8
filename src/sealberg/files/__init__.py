"""One encrypted file."""
