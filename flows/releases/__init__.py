"""Releases that several methods share."""
