"""FuseGen."""
