"""The outside world: language models, embedders, rows, files, budget book, tracking."""
