"""Format the plan and results of a comparison for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from connectors.interfaces.money import format_dollars
from flows.engine.text import cap_text, epsilon, money_about, table
from tasks.reporting.compare_report import EVERY_COLUMN, NOT_PRIVATE


def plan(value: dict[str, Any]) -> str:
    """Return calls, cost and budget of all open cells as text."""
    lines = [
        f"comparison    {value['title']}",
        f"cells         {value['cells']}, {value['open']} to run, {value['workers']} at a time",
        f"calls         {value['calls']}",
        f"tokens        about {value['tokens_in']} in, {value['tokens_out']} out",
        f"money         {money_about(value)}",
        f"time          {_minutes(value['minutes_of_writing'])}",
    ]
    for dataset in value["datasets"]:
        lines.append(
            f"budget        dataset '{dataset['dataset']}': {dataset['runs']} runs, {dataset['releases']} releases, "
            f"total epsilon {epsilon(dataset['epsilon'])} at delta {dataset['delta']:g}; every cell is charged"
            f"{cap_text(dataset, 'cells will be refused')}"
        )
    if not value["datasets"]:
        lines.append("budget        none: no open cell releases anything about private rows")
    heads = ("row", "column", "seed", "flow", "calls", "dollars", "epsilon")
    return "\n".join([*lines, "", table([_plan_row(cell) for cell in value["matrix"]], heads)])


def summary(value: dict[str, Any]) -> str:
    """Return cells, verdicts and table paths of a finished comparison as text."""
    metrics = _measured(value)
    heads = ("row", "column", "seed", "state", *metrics.values(), "epsilon of output", "added to budget", "seconds")
    lines = [table([_result_row(cell, metrics) for cell in value["cells"] if not cell["not_private"]], heads), ""]
    lines += _unnoised(value)
    judged = [claim for claim in value["claims"] if claim["verdict"]]
    unnoised = {cell["row"] for cell in value["cells"] if cell["not_private"]}
    labels = {row: f"{row} ({NOT_PRIVATE})" for row in unnoised}
    lines += [
        f"claim       {labels.get(claim['row'], claim['row'])} · {claim['column']} · {claim['metric']}: "
        f"{claim['verdict']}"
        for claim in judged
    ]
    for cell in value["cells"]:
        lines += [
            f"warning     {labels.get(cell['row'], cell['row'])} · {cell['column']} · seed {cell['seed']}: {warning}"
            for warning in cell.get("warnings", ())
        ]
    failed = [cell for cell in value["cells"] if cell["state"] == "failed"]
    lines += [f"failed      {cell['row']} · {cell['column']} · seed {cell['seed']}: {cell['error']}" for cell in failed]
    lines += [
        f"cells       {len(value['cells'])}: {value['reused']} reused, {value['failed']} failed; "
        f"{value['seconds']:.0f} s",
        f"tables      {value['table']} (also as table.md)",
    ]
    return "\n".join(lines)


def _measured(value: dict[str, Any]) -> dict[str, str]:
    """Return the metrics of the columns and their heads; an accuracy that no cell has is left out."""
    heads = {"accuracy": "accuracy", "adapted_accuracy": "adapted", "release_accuracy": "release", "fid": "FID"}
    always = ("accuracy", "fid")
    values = [cell["values"] for cell in value["cells"]]
    return {name: head for name, head in heads.items() if name in always or any(cell.get(name) for cell in values)}


def _minutes(minutes: float | None) -> str:
    return (
        "unknown: a model was never called"
        if minutes is None
        else f"about {minutes:.0f} minutes of generation in total"
    )


def _plan_row(cell: dict[str, Any]) -> Sequence[object]:
    spent = epsilon(cell["epsilon_exact"]) if cell["releases"] else "none"
    return [
        cell["row"],
        cell["column"],
        cell["seed"],
        cell["flow"],
        cell["calls"],
        format_dollars(cell["dollars_about"]),
        spent,
    ]


def _result_row(cell: dict[str, Any], metrics: Iterable[str]) -> Sequence[object]:
    scores = [_score(cell, metric) for metric in metrics]
    spent = ["-" if cell[name] is None else f"{cell[name]:.3f}" for name in ("epsilon", "added")]
    state = "reused" if cell["reused"] else cell["state"]
    return [cell["row"], cell["column"], cell["seed"], state, *scores, *spent, f"{cell['seconds']:.0f}"]


def _score(cell: dict[str, Any], metric: str) -> str:
    """Return a metric of a cell; FID names its rows unless these are the test rows, and says if it has no noise."""
    value, rows = cell["values"].get(metric), cell.get("fid_reference", "")
    if value is None:
        return "-"
    remarks = [f"{rows} rows"] if metric == "fid" and rows not in ("", "test") else []
    remarks += ["not private"] if metric in cell.get("unnoised", ()) else []
    return f"{value:.3f}" + (f" ({', '.join(remarks)})" if remarks else "")


def _unnoised(value: dict[str, Any]) -> list[str]:
    """Return a separate table of the runs without noise, which have no epsilon."""
    runs: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for cell in value["cells"]:
        if cell["not_private"]:
            runs.setdefault(cell["run_id"], (cell, []))[1].append(cell["column"])
    if not runs:
        return []
    metrics = _measured(value)
    every = {cell["column"] for cell in value["cells"]}
    rows = []
    for cell, columns in runs.values():
        row, _, seed, state, *scores, _, _, seconds = _result_row(cell, metrics)
        settings = EVERY_COLUMN if set(columns) == every else ", ".join(columns)
        rows.append([f"{row} ({NOT_PRIVATE})", settings, seed, state, *scores, seconds])
    heads = ("row", "settings", "seed", "state", *metrics.values(), "seconds")
    return [f"{NOT_PRIVATE}: computed on private rows without noise, no epsilon applies", table(rows, heads), ""]
