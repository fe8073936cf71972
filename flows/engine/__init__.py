"""Lifecycle of a run: prepare, plan, execute, finish."""
