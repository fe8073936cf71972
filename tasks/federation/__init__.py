"""Messages and masked sums of a federation, without private records."""
