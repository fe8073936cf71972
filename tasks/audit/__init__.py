"""Attacks on releases and the bounds that they prove."""
