"""Language models, embedded and remote."""
