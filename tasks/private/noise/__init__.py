"""Noise from the operating system's random number generator."""
