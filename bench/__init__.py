"""Ratios, measured: both sides in one run, interleaved, the best of several.

    python -m bench [--json FILE] [--rounds N] [NAME ...]

A figure is a ratio or a count with a bound; the machine's own speed cancels out. `ags1` holds the
figures of the stream format. Nothing here is a test: a slow neighbour must not fail a build.
"""
