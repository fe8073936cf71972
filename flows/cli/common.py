"""Share the --json option, result printing and help formatting among all commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from connectors.interfaces.errors import BudgetError, ConfigError
from connectors.interfaces.redaction import redact

Json = Annotated[bool, typer.Option("--json", help="Last line on standard output: one JSON object.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also name the measurements behind the forecast.")]


def answer(value: Any, as_json: bool, to_text: Callable[[Any], str]) -> None:
    """Print a result as one JSON object or as text."""
    print(json.dumps(value, allow_nan=False) if as_json else to_text(value))


def answer_plan(value: dict[str, Any], as_json: bool, to_text: Callable[[Any], str]) -> None:
    """Print a plan; print its problems to standard error and exit with code 2, or with 3 if only the cap refuses it."""
    answer(value, as_json, to_text)
    budget = value.get("budget")
    refusal = budget["refusal"] if budget and not budget["has_equal"] else ""
    print_problems([*value["problems"], *([refusal] if refusal else [])])
    if value["problems"] or refusal:
        raise SystemExit(ConfigError.exit_code if value["problems"] else BudgetError.exit_code)


def print_problems(problems: Sequence[str]) -> None:
    """Print each problem as one line on standard error."""
    for problem in problems:
        print(f"wasp: {redact(problem)}", file=sys.stderr)


GROUPS = {
    "Start": ("init", "doctor", "advise", "plan", "preview", "run", "compare", "audit", "schema"),
    "Results": ("runs", "show", "report", "export", "verify-bundle", "resume", "abandon", "push"),
    "Privacy": ("budget", "dataset"),
    "Several parties": ("party", "partition"),
    "Operation": ("serve", "clean", "answers"),
}
"""Commands of `wasp` by group, in the order of its help."""


class Commands(TyperGroup):
    """A command group whose plain-text help does not truncate sentences, in the groups of `GROUPS`.

    Typer's plain help truncates sentences; its rich help takes four times as long as the rest of `wasp --help`.
    """

    def format_commands(self, _: Any, formatter: Any) -> None:
        """Write the name and help of each command, by group."""
        helps = {
            name: command.get_short_help_str(1000) for name, command in self.commands.items() if not command.hidden
        }
        groups = {title: [name for name in names if name in helps] for title, names in GROUPS.items()}
        placed = {name for names in groups.values() for name in names}
        groups["Further commands" if placed else "Commands"] = [name for name in helps if name not in placed]
        for title, names in groups.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name, helps[name]) for name in names])
