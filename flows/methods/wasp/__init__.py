"""WASP."""
