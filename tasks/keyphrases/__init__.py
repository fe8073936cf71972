"""Keyphrases of documents and densities over them."""
