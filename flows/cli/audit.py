"""Define `wasp audit`, which attacks the releases of a run's configuration or shows what it would attack (--plan)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.catalog import find_flow
from flows.cli.common import Json, answer, answer_plan
from flows.config.named import file_of


def audit(  # noqa: PLR0913 - the options of the command
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A configuration of a run, such as demo.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Configuration file of a run (YAML).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="Change one value: privacy.epsilon=2. Repeatable.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Draws of each release with and without the canary.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Confidence of each lower bound on epsilon.")] = 0.999,
    whole_run: Annotated[
        bool, typer.Option("--whole-run", help="Also attack one whole run of wasp with 600 canaries (minutes).")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what is attacked and what can be proven.")] = False,
    json_: Json = False,
) -> None:
    """Attack each noisy release of a run with made-up records; open no private row, spend no budget."""
    from flows.cli import commands

    values: dict[str, Any] = {"config": str(file_of(name, config, "audit")), "changes": set_, "trials": trials}
    values |= {"confidence": confidence, "pipeline": {} if whole_run else None}
    wording = find_flow("audit").text()
    if plan:
        answer_plan(commands.plan_values("audit", values), json_, wording.plan)
    else:
        answer(commands.run_values("audit", values), json_, wording.summary)
