"""The study of guidance on two cores: mechanisms x epsilon x private rows x data sets, with the product's functions."""
