"""Define `wasp compare`, which runs a matrix or shows its cost (--plan)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.catalog import find_flow
from flows.cli.common import Json, answer, answer_plan


def compare(
    config: Annotated[Path, typer.Option("--config", "-c", help="Configuration file (YAML) of the comparison.")],
    plan: Annotated[bool, typer.Option("--plan", help="Only show calls, dollars, epsilon and minutes.")] = False,
    set_: Annotated[list[str] | None, typer.Option("--set", "-s", help="Change one value: seeds=[0,1,2].")] = None,
    json_: Json = False,
) -> None:
    """Run a matrix of methods, settings and seeds; compare with published figures."""
    from flows.cli import commands

    wording = find_flow("compare").text()
    if plan:
        answer_plan(commands.plan("compare", config, set_ or []), json_, wording.plan)
    else:
        answer(commands.run("compare", config, set_ or []), json_, wording.summary)
