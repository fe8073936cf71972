"""The `wasp` command."""
