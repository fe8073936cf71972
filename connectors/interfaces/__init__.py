"""Protocols, value types and errors that the layers share."""
