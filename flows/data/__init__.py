"""Public data sets: fetched from their origin, checked, and prepared by recipes."""
