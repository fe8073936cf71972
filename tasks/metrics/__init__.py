"""Metrics of synthetic texts and students."""
