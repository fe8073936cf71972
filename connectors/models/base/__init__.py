"""Services shared by all language models: registry, completion cache, cost limit."""
