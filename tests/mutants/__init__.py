"""Mutations of the privacy code, each of which a test must catch."""
