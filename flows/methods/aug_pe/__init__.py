"""Aug-PE."""
