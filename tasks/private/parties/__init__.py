"""Votes of several parties: rounds, masks, shares of the noise, and what a party rejects."""
