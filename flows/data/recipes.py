"""Recipes of public data sets: where they come from, and which files they make."""

from connectors.rows.recipe_outputs import recipe_for

__all__ = ["recipe_for"]
