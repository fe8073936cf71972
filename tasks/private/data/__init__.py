"""Reading of private records and quarantine of their error messages."""
