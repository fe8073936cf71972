"""The exposure of private records: a student trained on them without noise. NOT PRIVATE."""
