"""PrE-Text."""
