"""Tables as streams.

streams  which files come next, from offset to offset
epochs   each batch is committed once
"""
