"""Diagnostics computed on private records without noise."""
