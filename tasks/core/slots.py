"""Ledger names of releases that a run makes at most once."""

from __future__ import annotations

from typing import Final

TRAINING: Final = "training"
"""A training by DP-SGD."""
PLAIN_TRAINING: Final = "train-0"
"""A training without noise on the private records: an exposure."""
GUIDANCE: Final = "guidance"
"""The density of the private records."""
