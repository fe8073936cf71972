"""Releases besides votes: densities, moments, teachers, label counts, keyphrases."""
