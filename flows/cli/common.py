"""Share options, the printing of results and the format of the help among all commands.

A command is a function that returns its `Output`. The Python interface calls the same function.
"""

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from connectors.interfaces.json_values import Json
from connectors.interfaces.redaction import redact
from flows.runtime.library_output import hidden_library_output
from flows.runtime.terminal_progress import connector_messages

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file (YAML).")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="Change one value: privacy.epsilon=2. Repeatable."),
]
LocalParties = Annotated[
    int | None,
    typer.Option(min=2, help="Also start the processes of the parties of a federated trial run."),
]


class Output(Json):
    """The result of a command: the object of --json.

    Attributes:
        to_text: formats the object for a terminal.
        exit_code: exit code of the command.
        problems: printed on standard error, one line each.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        to_text: Callable[[Json], str],
        exit_code: int = 0,
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(values)
        self.to_text = to_text
        self.exit_code = exit_code
        self.problems = problems


Function = TypeVar("Function", bound=Callable[..., Output])


def command(
    group: typer.Typer, name: str | None = None, panel: str | None = None
) -> Callable[[Function], Function]:
    """Make a function a command of a group, which prints its output; `panel`: its title in the help."""

    def register(function: Function) -> Function:
        group.command(name, rich_help_panel=panel)(_printing(function))
        return function

    return register


def _printing(function: Callable[..., Output]) -> Callable[..., None]:
    """Return a function with the further option --json, which prints the output and exits with its code."""

    @wraps(function)
    def call(*arguments: object, as_json: bool, **options: object) -> None:
        # Only the command itself: its output must reach the terminal.
        with hidden_library_output(), connector_messages():
            output = function(*arguments, **options)
        show(output, as_json)
        if output.exit_code:
            raise SystemExit(output.exit_code)

    flag = Annotated[
        bool, typer.Option("--json", help="Last line on standard output: one JSON object.")
    ]
    # Typer reads options from signature and annotations of the function that it calls.
    signature = inspect.signature(function, eval_str=True)
    last = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=flag
    )
    parameters = [*signature.parameters.values(), last]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def show(output: Output, as_json: bool = False) -> None:
    """Print the problems of a command, then its result as text or JSON."""
    # First: a long result would hide them.
    print_problems(output.problems)
    # NaN and Infinity are no JSON: a strict reader of --json would fail.
    text = json.dumps(output, allow_nan=False) if as_json else output.to_text(output)
    print(text)


def print_problems(problems: Sequence[str]) -> None:
    """Print each problem as one line on standard error."""
    for problem in problems:
        print(f"wasp: {redact(problem)}", file=sys.stderr)


class Commands(TyperGroup):
    """A command group whose plain-text help does not truncate sentences.

    Typer's plain help truncates sentences; its rich help takes four times as long as the rest of `wasp --help`.
    """

    # Typer keeps the classes of these two parameters private.
    def format_commands(self, _: Any, formatter: Any) -> None:
        """Write the name and help of each command, by group."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                title = getattr(command, "rich_help_panel", None) or "Commands"
                panels.setdefault(title, []).append((name, command.get_short_help_str(1000)))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def command_group(text: str) -> typer.Typer:
    """Return a group of commands, such as `wasp budget`, with its help."""
    return typer.Typer(cls=Commands, rich_markup_mode=None, no_args_is_help=True, help=text)
