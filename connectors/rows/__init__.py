"""Readers of records: files, hubs and databases."""
