"""What a step is: its declaration, its key, the tools it gets and the values passed on."""
