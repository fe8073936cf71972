"""Exact nearest-neighbour search for private records among synthetic candidates."""
