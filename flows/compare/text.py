"""Format the plan and results of a comparison for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from connectors.interfaces.money import format_dollars
from flows.engine.text import cap_text, epsilon, money_about, table
from tasks.reporting.compare_report import NOT_PRIVATE

ALWAYS = ("accuracy", "fid")
"""Metrics with a column even if no cell has them."""


def plan(value: dict[str, Any]) -> str:
    """Return calls, cost and budget of all open cells as text."""
    minutes = "unknown: a model was never called"
    if value["minutes_of_writing"] is not None:
        minutes = f"about {value['minutes_of_writing']:.0f} minutes of generation in total"
    lines = [
        f"comparison    {value['title']}",
        f"cells         {value['cells']}, {value['open']} to run, {value['workers']} at a time",
        f"calls         {value['calls']}",
        f"tokens        about {value['tokens_in']} in, {value['tokens_out']} out",
        f"money         {money_about(value)}",
        f"time          {minutes}",
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
    heads = _measured(value)
    columns = ("row", "column", "seed", "state", *heads.values(), "epsilon of output", "added to budget", "seconds")
    private = [cell for cell in value["cells"] if not cell["not_private"]]
    lines = [table([list(_result(cell, heads).values()) for cell in private], columns), "", *_unnoised(value, heads)]
    unnoised = {cell["row"] for cell in value["cells"] if cell["not_private"]}
    labels = {row: f"{row} ({NOT_PRIVATE})" for row in unnoised}
    lines += [
        f"claim       {labels.get(claim['row'], claim['row'])} · {claim['column']} · {claim['metric']}: "
        f"{claim['verdict']}"
        for claim in value["claims"]
        if claim["verdict"]
    ]
    lines += [
        f"warning     {labels.get(cell['row'], cell['row'])} · {cell['column']} · seed {cell['seed']}: {warning}"
        for cell in value["cells"]
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
    values = [cell["values"] for cell in value["cells"]]
    return {name: head for name, head in heads.items() if name in ALWAYS or any(cell.get(name) for cell in values)}


def _plan_row(cell: dict[str, Any]) -> Sequence[object]:
    spent = epsilon(cell["epsilon_exact"]) if cell["releases"] else "none"
    shown = [cell[name] for name in ("row", "column", "seed", "flow", "calls")]
    return [*shown, format_dollars(cell["dollars_about"]), spent]


def _result(cell: dict[str, Any], metrics: Iterable[str]) -> dict[str, object]:
    """Return the line of a cell by column."""
    line = {name: cell[name] for name in ("row", "column", "seed")}
    line |= {"state": "reused" if cell["reused"] else cell["state"]}
    line |= {metric: _score(cell, metric) for metric in metrics}
    line |= {name: "-" if cell[name] is None else f"{cell[name]:.3f}" for name in ("epsilon", "added")}
    return line | {"seconds": f"{cell['seconds']:.0f}"}


def _score(cell: dict[str, Any], metric: str) -> str:
    """Return a metric of a cell; FID names its rows unless these are the test rows, and says if it has no noise."""
    value, rows = cell["values"].get(metric), cell.get("fid_reference", "")
    if value is None:
        return "-"
    remarks = [f"{rows} rows"] if metric == "fid" and rows not in ("", "test") else []
    remarks += ["not private"] if metric in cell.get("unnoised", ()) else []
    return f"{value:.3f}" + (f" ({', '.join(remarks)})" if remarks else "")


def _unnoised(value: dict[str, Any], heads: dict[str, str]) -> list[str]:
    """Return a separate table of the runs without noise, which have no epsilon."""
    lines = []
    for cell in value["cells"]:
        if cell["not_private"]:
            line = _result(cell, heads) | {"row": f"{cell['row']} ({NOT_PRIVATE})"}
            lines.append([text for name, text in line.items() if name not in ("epsilon", "added")])
    if not lines:
        return []
    shown = table(lines, ("row", "column", "seed", "state", *heads.values(), "seconds"))
    return [f"{NOT_PRIVATE}: computed on private rows without noise, no epsilon applies", shown, ""]
