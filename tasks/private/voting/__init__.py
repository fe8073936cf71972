"""Noisy nearest-neighbour votes of private records."""
