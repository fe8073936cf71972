"""Noise from the operating system's random numbers."""
