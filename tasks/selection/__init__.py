"""Selection of examples and weights of language models."""
