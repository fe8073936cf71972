"""What a comparison plans and what it came to, as plain values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flows.compare.cells import Cell, cells_of, sorted_out
from flows.engine.checks import Memo, problems_of
from flows.engine.plan import numbers_of
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts
from tasks.accounting.composition import epsilon_of
from tasks.accounting.no_noise import finite
from tasks.reporting.compare_report import Comparison, claims

if TYPE_CHECKING:
    from flows.compare.config import CompareConfig

ADDED = ("calls", "tokens_in", "tokens_out", "dollars_about", "dollars_estimated")


def planned(config: CompareConfig) -> dict[str, Any]:
    """Return what the open cells would ask and spend together; no row is opened and nothing reserved.

    Budgets are per dataset by its name in the book: epsilon of all releases together, however they are chosen.
    """
    cells = cells_of(config)
    artifacts = open_artifacts(state_folder())
    _, open_ = sorted_out(artifacts, cells)
    plans = [(cell, numbers_of(cell.config)) for cell in open_]
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
        "matrix": [_line(cell, plan) for cell, plan in plans],
        "problems": _problems(open_),
    }


def published_of(config: CompareConfig) -> dict[tuple[str, str, str], float]:
    """Return published figures by metric, row and column."""
    return {
        (metric, row.name, column): figure
        for row in config.rows
        for metric, figures in row.published.items()
        for column, figure in figures.items()
    }


def summary_of(comparison: Comparison, run_id: str, folder: str) -> dict[str, Any]:
    """Return what a finished comparison says of itself."""
    failed = [one for one in comparison.answers if one.state == "failed"]
    return {
        "run_id": run_id,
        "flow": "compare",
        "title": comparison.title,
        "state": "done" if not failed else "incomplete",
        "cells": [asdict(one) for one in comparison.answers],
        "not_private": sorted({one.row for one in comparison.answers if one.not_private}),
        "failed": len(failed),
        "reused": sum(one.reused for one in comparison.answers),
        "claims": [asdict(one) for one in claims(comparison)],
        "dollars": sum(one.dollars for one in comparison.answers if not one.reused),
        "dollars_estimated": sum(one.dollars_estimated for one in comparison.answers if not one.reused),
        "folder": folder,
        "table": f"{folder}/table.html",
    }


def _problems(cells: Sequence[Cell]) -> list[str]:
    """Return what the open cells would stop on, each problem once, with the first row that has it."""
    home, memo, found = state_folder(), Memo(), dict[str, str]()
    for cell in cells:
        for problem in problems_of(cell.config, home, memo):
            found.setdefault(str(problem), f"rows '{cell.row}', columns '{cell.column}': {problem}")
    return list(found.values())


def _datasets(plans: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return what each private dataset would be charged: runs, releases and epsilon of all of them together."""
    from flows.config.paths import default_name

    events: dict[tuple[str, float], list[Mapping[str, Any]]] = defaultdict(list)
    runs: dict[tuple[str, float], int] = defaultdict(int)
    for cell, plan in plans:
        if plan["events"]:
            where, parties = cell.config.private, cell.config.parties
            whose = parties.name if parties is not None else ""
            name = (whose if where is None else where.name or default_name(where.path), plan["delta"])
            events[name] += plan["events"]
            runs[name] += 1
    return [
        {
            "dataset": name,
            "delta": delta,
            "runs": runs[name, delta],
            "releases": len(found),
            "epsilon": _spent(found, delta),
        }
        for (name, delta), found in sorted(events.items())
    ]


def _spent(events: Sequence[Mapping[str, Any]], delta: float) -> float | None:
    """Return epsilon of all events together; None: without noise."""
    return finite(epsilon_of(list(events), delta))


def _line(cell: Cell, plan: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: plan[name] for name in (*ADDED, "epsilon_stated", "epsilon_exact", "releases")}
    return {"row": cell.row, "column": cell.column, "seed": cell.seed, "flow": cell.flow} | told
