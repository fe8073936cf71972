"""Prompts, variations and cleaning of texts."""
