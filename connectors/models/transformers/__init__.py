"""Language models that run locally through transformers."""
