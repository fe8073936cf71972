"""Plan and summary of a comparison as plain values."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import WaspError
from connectors.interfaces.json_values import Json
from flows.compare.cells import Cell, cells_of, split_cells
from flows.compare.config import CompareConfig, Row
from flows.compare.partitions import plannable, registry_of
from flows.compare.preflight import inspect_cells
from flows.config.paths import dataset_of
from flows.engine.plan import numbers_of
from flows.runtime.manifest import versions
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts, open_ledger
from tasks.accounting.composition import epsilon_of
from tasks.accounting.guarantee import finite
from tasks.metrics.comparison import CellResult
from tasks.metrics.usefulness import BESIDE
from tasks.reporting.compare_report import claims
from tasks.reporting.compare_results import Comparison

ADDED = ("calls", "tokens_in", "tokens_out", "dollars_about")
SHOWN = (*ADDED, "epsilon_stated", "epsilon_exact", "releases")
"""Numbers of a plan: added over all cells, and shown for each cell."""
_Dataset = tuple[str, bool, float]
"""Name of a dataset in the ledger, True if its rows are public, and delta."""


def planned(config: CompareConfig) -> Json:
    """Return problems, calls, cost and budget of all open cells.

    Open no rows and reserve nothing.

    Budgets are per dataset name in the ledger: the total epsilon of all releases under adaptive composition. A cell
    whose numbers are invalid has a problem, and no part in the sums.
    """
    cells = cells_of(config)
    _, open_ = split_cells(open_artifacts(state_folder()), cells)
    return planned_cells(config, len(cells), open_)


def planned_cells(
    config: CompareConfig, cells: int, open_: Sequence[Cell], fetched: Collection[str] = ()
) -> Json:
    """Return problems, calls, cost and budget of open cells.

    Args:
        config: the comparison.
        cells: number of all its cells.
        open_: its cells that have to run.
        fetched: hints (`fetch_hint`) about missing data that are fetched before the cells run; no problem.
    """
    preflight = inspect_cells(config, open_)
    plans: list[tuple[Cell, Mapping[str, Any]]] = []
    for cell in open_:
        try:
            with plannable(cell.config, config.local_parties) as plan_config:
                plans.append((cell, numbers_of(plan_config)))
        except WaspError as error:
            if str(error) not in preflight.by_cell[cell.key]:
                preflight.by_cell[cell.key].append(str(error))
    for key, problems in preflight.by_cell.items():
        preflight.by_cell[key] = [text for text in problems if not text.endswith(tuple(fetched))]
    # The sum is unknown if one cell has a model that was never called.
    minutes = [plan["minutes_of_writing"] for _, plan in plans]
    unmeasured = {
        model: None
        for _, plan in plans
        for model in plan["models"]
        if model not in plan["measured"]
    }
    return {
        "flow": "compare",
        "title": config.title,
        "cells": cells,
        "open": len(open_),
        "failing": preflight.failing,
        "workers": config.workers,
        **{name: sum(plan[name] for _, plan in plans) for name in ADDED},
        "minutes_of_writing": None if None in minutes else sum(minutes),
        "minutes_measured": sum(known for known in minutes if known is not None),
        "unmeasured": list(unmeasured),
        "datasets": _datasets(plans),
        "matrix": [
            cell.labels | {"flow": cell.flow} | {name: plan[name] for name in SHOWN}
            for cell, plan in plans
        ],
        "needs": preflight.needs,
        "unchecked": preflight.unchecked,
        "problems": preflight.problems,
    }


def comparison_of(config: CompareConfig, answers: Sequence[CellResult], made: str) -> Comparison:
    """Return the comparison of some answers; `made`: time of the tables."""
    rows = {row.name: row for row in config.rows}
    shown = tuple(_shown(answer, rows[answer.row]) for answer in answers)
    differs = {row.name: _differs(row) for row in config.rows}
    return Comparison(
        title=config.title,
        rows=tuple(row.name for row in config.rows),
        columns=tuple(column.name for column in config.columns),
        places=tuple(column.place for column in config.columns),
        seeds=tuple(config.seeds),
        metrics=shown_metrics(config.metrics, shown),
        answers=shown,
        published=config.published,
        differs={row: text for row, text in differs.items() if text},
        made=made,
        versions=versions(),
    )


def _shown(answer: CellResult, row: Row) -> CellResult:
    """Return a result with the metrics that its row shows in place of others."""
    shown = {metric: answer.values.get(source) for metric, source in row.shows.items()}
    return replace(answer, values={**answer.values, **shown})


def _differs(row: Row) -> str:
    """Return the differences of a row from the published setting, with the metrics that it shows in place of others."""
    shown = [f"{metric} is {source}" for metric, source in row.shows.items()]
    return "; ".join(filter(None, [row.differs, *shown]))


def shown_metrics(metrics: Sequence[str], answers: Sequence[CellResult]) -> tuple[str, ...]:
    """Return the metrics of the tables: with `accuracy` also the other accuracies that a cell has."""
    others = [
        name for name in BESIDE if any(answer.values.get(name) is not None for answer in answers)
    ]
    names = []
    for metric in metrics:
        names.append(metric)
        if metric == "accuracy":
            names += others
    return tuple(dict.fromkeys(names))


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


def _datasets(plans: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[Json]:
    """Return runs, releases, total and remaining epsilon of each private dataset.

    `epsilon` is the total of the runs with noise; `unnoised` counts the others, whose epsilon is infinite. `public`:
    the rows are declared public, or shipped. `registries`: number of registries of parties, whose ledgers are charged
    instead of this one; `epsilon` is then the highest total of a registry.
    """
    # All cells of a dataset are charged together: their composed epsilon is below the sum of the cells.
    by_dataset: dict[_Dataset, list[tuple[Cell, Mapping[str, Any]]]] = defaultdict(list)
    for cell, plan in plans:
        if plan["events"]:
            by_dataset[*dataset_of(cell.config), plan["delta"]].append((cell, plan))
    return [_dataset(*key, by_dataset[key]) for key in sorted(by_dataset)]


def _dataset(
    name: str, is_public: bool, delta: float, charged: Sequence[tuple[Cell, Mapping[str, Any]]]
) -> Json:
    events = [event for _, plan in charged for event in plan["events"]]
    # Cells without parties share one ledger, this one.
    of_registries: dict[Path | None, list[Mapping[str, Any]]] = defaultdict(list)
    unnoised = 0
    for cell, plan in charged:
        if plan["epsilon_exact"] is None:
            unnoised += 1
        else:
            of_registries[registry_of(cell.config)] += plan["events"]
    totals = [epsilon_of(noised, delta) for noised in of_registries.values()]
    return {
        "delta": delta,
        "public": is_public,
        "runs": len(charged),
        "unnoised": unnoised,
        "releases": len(events),
        "epsilon": finite(max(totals)) if totals else None,
        "registries": len(of_registries.keys() - {None}),
    } | open_ledger(state_folder()).outlook(name, events, delta, is_public)
