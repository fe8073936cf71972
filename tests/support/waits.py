"""How long tests wait for servers and processes."""

from __future__ import annotations

WAIT_SECONDS = 400.0
"""Limit of a wait for something that takes seconds on an idle machine: a busy machine is no failure."""
