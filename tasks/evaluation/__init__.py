"""Measure texts, students and floors."""
