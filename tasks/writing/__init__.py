"""Write texts: prompts, generation, cleaning and vectors of one model's texts."""
