"""How an attack proves a bound; names no kind of release."""
