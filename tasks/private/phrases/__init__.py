"""The releases of phrases: noisy numbers of records with each public term, and noisy densities of their phrases."""
