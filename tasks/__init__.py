"""Computations of the steps: plain functions, values in, values out."""

import connectors  # noqa: F401  (it settles how threads wait, before torch is loaded here)
