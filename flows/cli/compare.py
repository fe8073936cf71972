"""Define `wasp compare`, which runs a matrix or shows its cost (--plan)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.catalog import find_flow
from flows.cli.common import Json, answer, answer_plan
from flows.config.named import file_of


def compare(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A comparison by name; or --config FILE.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Configuration file (YAML).")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show calls, dollars, epsilon and minutes.")] = False,
    set_: Annotated[list[str] | None, typer.Option("--set", "-s", help="Change one value: seeds=[0,1,2].")] = None,
    json_: Json = False,
    local_parties: Annotated[
        int | None, typer.Option(min=2, help="Also start the processes of the parties of its federated runs.")
    ] = None,
) -> None:
    """Run a matrix of methods, settings and seeds; compare with published figures."""
    from flows.cli import commands

    file = file_of(name, config, "compare")
    wording = find_flow("compare").text()
    if plan:
        answer_plan(commands.plan("compare", file, set_ or []), json_, wording.plan)
    else:
        answer(commands.run("compare", file, set_ or [], local_parties), json_, wording.summary)
