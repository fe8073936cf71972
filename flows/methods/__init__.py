"""One package per method."""
