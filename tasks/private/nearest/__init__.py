"""Nearest-neighbour search of private records among candidates."""
