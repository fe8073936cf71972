"""Embedded n-gram language models."""
