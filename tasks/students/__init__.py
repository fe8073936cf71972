"""Downstream classifiers (students) and their training."""
