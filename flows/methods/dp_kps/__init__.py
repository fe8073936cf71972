"""DP-KPS."""
