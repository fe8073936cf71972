"""What a step computes: plain functions, values in, values out."""
