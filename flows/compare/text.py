"""What a comparison says in the terminal: its plan, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.interfaces.money import format_dollars
from flows.engine.text import epsilon, money_about, table
from tasks.reporting.compare_report import EVERY_COLUMN, NOT_PRIVATE


def plan(value: dict[str, Any]) -> str:
    """Say what the open cells would ask and spend together."""
    lines = [
        f"comparison    {value['title']}",
        f"cells         {value['cells']}, {value['open']} to be carried out, {value['workers']} at a time",
        f"calls         {value['calls']}",
        f"tokens        about {value['tokens_in']} in, {value['tokens_out']} out",
        f"money         {money_about(value)}",
        f"time          {_minutes(value['minutes_of_writing'])}",
    ]
    for one in value["datasets"]:
        lines.append(
            f"budget        dataset '{one['dataset']}': {one['runs']} runs, {one['releases']} releases, all together "
            f"epsilon {epsilon(one['epsilon'])} at delta {one['delta']:g}; every cell is charged to its book"
        )
    if not value["datasets"]:
        lines.append("budget        nothing: no open cell releases anything of private rows")
    heads = ("row", "column", "seed", "flow", "calls", "dollars", "epsilon")
    return "\n".join([*lines, "", table([_cells(one) for one in value["matrix"]], heads)])


def summary(value: dict[str, Any]) -> str:
    """Show a finished comparison: its cells, what became of published claims, and where the tables are."""
    heads = ("row", "column", "seed", "state", "accuracy", "fid", "epsilon of output", "added to budget", "seconds")
    lines = [table([_answer(one) for one in value["cells"] if not one["not_private"]], heads), ""]
    lines += _unnoised(value)
    said = [one for one in value["claims"] if one["verdict"]]
    unnoised = {one["row"] for one in value["cells"] if one["not_private"]}
    named = {row: f"{row} ({NOT_PRIVATE})" for row in unnoised}
    lines += [
        f"claim       {named.get(one['row'], one['row'])} · {one['column']} · {one['metric']}: {one['verdict']}"
        for one in said
    ]
    for cell in value["cells"]:
        lines += [
            f"warning     {named.get(cell['row'], cell['row'])} · {cell['column']} · seed {cell['seed']}: {warning}"
            for warning in cell.get("warnings", ())
        ]
    failed = [one for one in value["cells"] if one["state"] == "failed"]
    lines += [f"failed      {one['row']} · {one['column']} · seed {one['seed']}: {one['error']}" for one in failed]
    lines += [
        f"cells       {len(value['cells'])}, {value['reused']} read back, {value['failed']} failed; "
        f"{value['seconds']:.0f} s",
        f"tables      {value['table']}, table.md beside it",
    ]
    return "\n".join(lines)


def _minutes(minutes: float | None) -> str:
    return "not known: a model was never asked" if minutes is None else f"about {minutes:.0f} minutes of writing in all"


def _cells(one: dict[str, Any]) -> Sequence[object]:
    spent = epsilon(one["epsilon_exact"]) if one["releases"] else "none"
    return [
        one["row"],
        one["column"],
        one["seed"],
        one["flow"],
        one["calls"],
        format_dollars(one["dollars_about"]),
        spent,
    ]


def _answer(one: dict[str, Any]) -> Sequence[object]:
    measured = [one["values"].get(metric) for metric in ("accuracy", "fid")]
    known = ["-" if value is None else f"{value:.3f}" for value in measured]
    spent = ["-" if one[name] is None else f"{one[name]:.3f}" for name in ("epsilon", "added")]
    state = "read back" if one["reused"] else one["state"]
    return [one["row"], one["column"], one["seed"], state, *known, *spent, f"{one['seconds']:.0f}"]


def _unnoised(value: dict[str, Any]) -> list[str]:
    """List the runs without noise in a table of their own: no column of epsilons says anything about them."""
    runs: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for one in value["cells"]:
        if one["not_private"]:
            runs.setdefault(one["run_id"], (one, []))[1].append(one["column"])
    if not runs:
        return []
    every = {one["column"] for one in value["cells"]}
    rows = []
    for one, columns in runs.values():
        row, _, seed, state, accuracy, fid, _, _, seconds = _answer(one)
        settings = EVERY_COLUMN if set(columns) == every else ", ".join(columns)
        rows.append([f"{row} ({NOT_PRIVATE})", settings, seed, state, accuracy, fid, seconds])
    heads = ("row", "settings", "seed", "state", "accuracy", "fid", "seconds")
    return [f"{NOT_PRIVATE}: computed on private rows without noise, no epsilon holds", table(rows, heads), ""]
