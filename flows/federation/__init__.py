"""Federated runs: coordinator and parties."""
