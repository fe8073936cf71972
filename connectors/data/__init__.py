"""Texts that ship with the project, and the scripts that create them."""
