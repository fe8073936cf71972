"""Reproduction of the tables and figures of the papers: data, comparisons, verdicts on one page."""
