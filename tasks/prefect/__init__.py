"""Prefect tasks for the steps."""
