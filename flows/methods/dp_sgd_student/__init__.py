"""A student trained by DP-SGD."""
