"""Diagnostics of private records, never shared."""
