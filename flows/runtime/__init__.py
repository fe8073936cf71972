"""Process and state folder of a run: paths, stores, progress, error messages."""
