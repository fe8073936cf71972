"""What all commands have in common: the option --json, and how a command gives its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Last line on standard output: one JSON object.")]


def answer(value: Any, as_json: bool, words: Callable[[Any], str]) -> None:
    """Print an answer: as one JSON object, or in words."""
    print(json.dumps(value, allow_nan=False) if as_json else words(value))
