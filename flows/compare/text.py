"""Format the plan and results of a comparison for the terminal."""

from collections.abc import Sequence

from connectors.interfaces.counts import duration
from connectors.interfaces.json_values import Json
from connectors.interfaces.money import format_dollars
from tasks.accounting.guarantee import epsilon_text
from tasks.reporting.terminal import cap_text, table


def plan(value: Json) -> str:
    """Return calls, cost and budget of all open cells as text."""
    minutes = "unknown: a model was never called"
    if value["minutes_of_writing"] is not None:
        minutes = f"about {duration(60 * value['minutes_of_writing'])} of generation in total"
    lines = [
        f"comparison    {value['title']}",
        f"cells         {value['cells']}, {value['open']} to run, {value['workers']} at a time",
        f"calls         {value['calls']}",
        f"tokens        about {value['tokens_in']} in, {value['tokens_out']} out",
        f"money         about {format_dollars(value['dollars_about'])} dollars",
        f"time          {minutes}",
    ]
    for dataset in value["datasets"]:
        lines.append(
            f"budget        dataset '{dataset['dataset']}': {dataset['runs']} runs, {dataset['releases']} releases, "
            f"total epsilon {epsilon_text(dataset['epsilon'])} at delta {dataset['delta']:g}; every cell is charged"
            f"{cap_text(dataset, 'cells will be refused')}"
        )
    if not value["datasets"]:
        lines.append("budget        none: no open cell releases anything about private rows")
    heads = ("row", "column", "seed", "flow", "calls", "dollars", "epsilon")
    return "\n".join([*lines, "", table([_plan_row(cell) for cell in value["matrix"]], heads)])


def summary(value: Json) -> str:
    """Return the tables of a finished comparison, and where they are stored, as text."""
    lines = [
        # Summaries of earlier versions have no tables.
        value.get("tables", ""),
        f"cells       {len(value['cells'])}: {value['reused']} reused, {value['failed']} failed; "
        f"{duration(value['seconds'])}",
        f"stored as   {value['table']} (also as table.md)",
    ]
    return "\n".join(lines)


def _plan_row(cell: Json) -> Sequence[object]:
    spent = epsilon_text(cell["epsilon_exact"]) if cell["releases"] else "none"
    shown = [cell[name] for name in ("row", "column", "seed", "flow", "calls")]
    return [*shown, format_dollars(cell["dollars_about"]), spent]
