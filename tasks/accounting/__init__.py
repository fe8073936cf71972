"""Privacy accounting: composition, sensitivity and one module per mechanism."""
