"""DP-SGD + Gen."""
