"""Training on private records, with DP-SGD or without noise."""
