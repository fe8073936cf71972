"""Language models trained on the spot on contrastive prompts, and whether they follow them."""
