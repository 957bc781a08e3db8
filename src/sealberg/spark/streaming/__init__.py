"""Structured Streaming: tables as sources and sinks.

streams  which files a micro-batch reads, from offset to offset
epochs   commits each micro-batch once
"""
