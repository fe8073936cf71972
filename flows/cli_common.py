"""What all commands have in common: the option --json, and how a command gives its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

Json = Annotated[bool, typer.Option("--json", help="Last line on standard output: one JSON object.")]


def answer(value: Any, as_json: bool, words: Callable[[Any], str]) -> None:
    """Print an answer: as one JSON object, or in words."""
    print(json.dumps(value, allow_nan=False) if as_json else words(value))


class Commands(TyperGroup):
    """A group whose help is plain text, with every command's sentence as a whole.

    Typer's own plain help cuts sentences off; its boxes take four times as long as the rest of `wasp --help`.
    """

    def format_commands(self, _: Any, formatter: Any) -> None:
        """Write what each command does."""
        shown = [(name, one.get_short_help_str(1000)) for name, one in self.commands.items() if not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(shown)
