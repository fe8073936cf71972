"""Types that every step uses: references, opened connectors, cache keys."""
