"""The algorithms of the papers as Prefect flows."""
