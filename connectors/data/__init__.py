"""Bundled texts, and the scripts that create them."""
