"""Servers for tests: catalogs, databases, KMS, object stores, proxies. Each is a real server where one can run."""
