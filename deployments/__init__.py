"""Configurations and deployments of the flows."""
