"""Experiment tracking with MLflow, through a local journal."""
