"""Configurations of the flows: typed fields, YAML files, the Prefect form."""
