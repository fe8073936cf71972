"""Guidance by a released density: feature maps and matching."""
