"""Releases other than votes: densities, moments, teachers, label counts, keyphrases."""
