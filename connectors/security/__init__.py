"""Secrets, signatures and keyed hashes of records."""
