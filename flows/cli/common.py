"""What all commands have in common: the option --json, and how a command gives its answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import redact

Json = Annotated[bool, typer.Option("--json", help="Last line on standard output: one JSON object.")]


def answer(value: Any, as_json: bool, words: Callable[[Any], str]) -> None:
    """Print an answer: as one JSON object, or in words."""
    print(json.dumps(value, allow_nan=False) if as_json else words(value))


def answer_plan(value: dict[str, Any], as_json: bool, words: Callable[[Any], str]) -> None:
    """Print a plan; what its run would stop on follows on standard error, and the exit code is then 2."""
    answer(value, as_json, words)
    if value["problems"]:
        print_problems(value["problems"])
        raise SystemExit(ConfigError.exit_code)


def print_problems(problems: Sequence[str]) -> None:
    """Print a line for each problem on standard error."""
    for problem in problems:
        print(f"wasp: {redact(problem)}", file=sys.stderr)


class Commands(TyperGroup):
    """A group whose help is plain text, with every command's sentence as a whole.

    Typer's own plain help cuts sentences off; its boxes take four times as long as the rest of `wasp --help`.
    """

    def format_commands(self, _: Any, formatter: Any) -> None:
        """Write what each command does."""
        shown = [(name, one.get_short_help_str(1000)) for name, one in self.commands.items() if not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(shown)
