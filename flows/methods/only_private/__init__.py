"""OnlyPrivate, an upper bound without privacy."""
