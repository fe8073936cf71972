"""Plan and summary of a comparison as plain values."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from connectors.interfaces.json_values import Json
from flows.compare.cells import Cell, cells_of, split_cells
from flows.compare.config import CompareConfig
from flows.config.paths import dataset_of
from flows.engine.checks import Memo, problems_of
from flows.engine.plan import numbers_of
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts, open_ledger
from tasks.accounting.composition import epsilon_of
from tasks.accounting.guarantee import finite
from tasks.reporting.compare_report import claims
from tasks.reporting.compare_results import Comparison

ADDED = ("calls", "tokens_in", "tokens_out", "dollars_about")
SHOWN = (*ADDED, "epsilon_stated", "epsilon_exact", "releases")
"""Numbers of a plan: added over all cells, and shown for each cell."""


def planned(config: CompareConfig) -> Json:
    """Return calls, cost and budget of all open cells.

    Open no rows and reserve nothing.

    Budgets are per dataset name in the ledger: the total epsilon of all releases under adaptive composition.
    """
    cells = cells_of(config)
    artifacts = open_artifacts(state_folder())
    _, open_ = split_cells(artifacts, cells)
    plans: list[tuple[Cell, Mapping[str, Any]]] = [
        (cell, numbers_of(cell.config)) for cell in open_
    ]
    # The sum is unknown if one cell has a model that was never called.
    minutes = [plan["minutes_of_writing"] for _, plan in plans]
    return {
        "flow": "compare",
        "title": config.title,
        "cells": len(cells),
        "open": len(open_),
        "workers": config.workers,
        **{name: sum(plan[name] for _, plan in plans) for name in ADDED},
        "minutes_of_writing": None if None in minutes else sum(minutes),
        "datasets": _datasets(plans),
        "matrix": [
            cell.labels | {"flow": cell.flow} | {name: plan[name] for name in SHOWN}
            for cell, plan in plans
        ],
        "problems": _problems(open_),
    }


def summary_of(comparison: Comparison, run_id: str, folder: str) -> Json:
    """Return the summary of a finished comparison."""
    failed = [answer for answer in comparison.answers if answer.state == "failed"]
    return {
        "run_id": run_id,
        "flow": "compare",
        "title": comparison.title,
        "state": "done" if not failed else "incomplete",
        "cells": [asdict(answer) for answer in comparison.answers],
        "not_private": sorted({answer.row for answer in comparison.answers if answer.not_private}),
        "failed": len(failed),
        "reused": sum(answer.reused for answer in comparison.answers),
        "claims": [asdict(claim) for claim in claims(comparison)],
        "dollars": sum(answer.dollars for answer in comparison.answers if not answer.reused),
        "dollars_estimated": sum(
            answer.dollars_estimated for answer in comparison.answers if not answer.reused
        ),
        "folder": folder,
        "table": f"{folder}/table.html",
    }


def _problems(cells: Sequence[Cell]) -> list[str]:
    """Return the problems of open cells, each with the first cell that has it."""
    home = state_folder()
    memo = Memo()
    problems = dict[str, str]()
    for cell in cells:
        for problem in problems_of(cell.config, home, memo):
            problems.setdefault(
                str(problem), f"rows '{cell.row}', columns '{cell.column}': {problem}"
            )
    return list(problems.values())


def _datasets(plans: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[Json]:
    """Return runs, releases, total and remaining epsilon of each private dataset."""
    # All cells of a dataset are charged together: their composed epsilon is below the sum of the cells.
    events: dict[tuple[str, bool, float], list[Mapping[str, Any]]] = defaultdict(list)
    runs: dict[tuple[str, bool, float], int] = defaultdict(int)
    ledger = open_ledger(state_folder())
    for cell, plan in plans:
        if plan["events"]:
            key = (*dataset_of(cell.config), plan["delta"])
            events[key] += plan["events"]
            runs[key] += 1
    return [
        {
            "delta": delta,
            "runs": runs[name, is_public, delta],
            "releases": len(charged),
            "epsilon": finite(epsilon_of(charged, delta)),
        }
        | ledger.outlook(name, charged, delta, is_public)
        for (name, is_public, delta), charged in sorted(events.items())
    ]
