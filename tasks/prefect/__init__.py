"""Prefect tasks that wrap the steps."""
