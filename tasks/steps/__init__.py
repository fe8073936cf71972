"""The declaration of a step, its key, its tools and the values passed on."""
