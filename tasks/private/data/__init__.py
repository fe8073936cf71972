"""Opening of private records and quarantine of their errors."""
