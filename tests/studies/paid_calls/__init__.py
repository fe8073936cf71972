"""Paid calls against servers that fail, limit and bill, as tables."""
