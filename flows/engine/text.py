"""What the command prints without --json: each function turns one answer into lines."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from connectors.interfaces.money import format_dollars, of_which_estimated
from flows.engine.federation import happened_lines
from flows.engine.usefulness import advice, usefulness_lines, warnings_of_summary

WIDE = 200
"""Columns where there is no terminal: nothing has to be folded there."""


def table(rows: Sequence[Sequence[object]], heads: Sequence[str]) -> str:
    """Return rows as aligned columns below their heads; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max([len(head), *(len(row[column]) for row in cells)]) for column, head in enumerate(heads)]

    def line(row: Sequence[str]) -> str:
        padded = (cell.rjust(w) if _is_number(cell) else cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(heads), line(["-" * width for width in widths]), *(line(row) for row in cells)])


def number(value: float | None, digits: int = 4) -> str:
    """Return a number, or 'not measured'."""
    return "not measured" if value is None else f"{value:.{digits}f}"


def epsilon(value: float | None) -> str:
    """Return an epsilon; None stands for no noise at all."""
    return "infinite (NOT PRIVATE)" if value is None else f"{value:.4f}"


def plan(value: dict[str, Any]) -> str:
    """Say what a run would spend."""
    lines = _writing(value) if value["models"] else [f"task          {value['task']}", "texts         none are written"]
    lines.append(f"steps         {value['steps']}")
    if value["approval_minutes"] is not None:
        lines.append(
            "approval      asked for before a private row is opened; in Prefect the run waits "
            f"{value['approval_minutes']} minutes for it"
        )
    if value["export_approval"]:
        lines.append("export        waits in Prefect for a second person, who has to approve it")
    if value["public_rows"]:
        lines.append(f"private rows  {value['public_rows']}")
    warnings = [f"warning       {text}" for text in value.get("warnings", [])]
    return "\n".join([*lines, *value["lines"], *warnings])


def _writing(value: dict[str, Any]) -> list[str]:
    """Say what the models are asked."""
    return [
        f"task          {value['task']}, models {', '.join(value['models'])}",
        f"texts         {value['samples']} in {value['iterations']} iterations",
        f"calls         {value['calls']} (and at most three rounds of topping up)",
        f"tokens        about {value['tokens_in']} in, {value['tokens_out']} out" + _basis(value),
        f"time          {_minutes(value['minutes_of_writing'])}",
        f"money         {money_about(value)} with equal shares, "
        + ("no limit set" if value["max_dollars"] is None else f"hard stop at {format_dollars(value['max_dollars'])}"),
    ]


def money_about(value: dict[str, Any]) -> str:
    """Return the planned dollars, and the part of models whose servers did not report tokens before."""
    return f"about {format_dollars(value['dollars_about'])} dollars{of_which_estimated(value['dollars_estimated'])}"


def _basis(value: dict[str, Any]) -> str:
    unknown = [name for name in value["models"] if name not in value["measured"]]
    basis = f"not measured, longest answers assumed: {', '.join(unknown)}" if unknown else "measured"
    unreported = value["usage_unreported"]
    return f" ({basis}" + (f"; estimated from bytes: {', '.join(unreported)})" if unreported else ")")


def _minutes(value: float | None) -> str:
    if value is None:
        return "not measured; wasp preview asks each model a few times"
    return f"about {value:.1f} minutes of writing, at the pace of earlier answers"


def summary(value: dict[str, Any]) -> str:
    """Show a finished run: the table of its iterations, its result, where it is, what to type next."""
    run_id = value["run_id"]
    lines = [
        *([iterations(value["iterations"]), ""] if value["iterations"] else []),
        f"{scores(value)}; {outcome(value)}; {value['seconds']:.0f} s",
        *usefulness_lines(value),
        *(f"degraded    {problem}" for problem in value["problems"]),
        *(f"warning     {warning}" for warning in value.get("warnings", ())),
        *budget_lines(value),
        *([f"cost        {_cost(value)}"] if value["dollars"] else []),
        *(happened_lines(value["parties"]) if value.get("parties") else []),
        *([f"removed     {value['removed']}"] if value.get("removed") else []),
        "",
        f"artifacts   {value['folder']}",
        f"report      {value['report']}",
        f"MLflow      {value['mlflow']}",
        "",
        "next        " + "\n            ".join(_next(value, run_id)),
    ]
    return "\n".join(lines)


def outcome(value: dict[str, Any]) -> str:
    """Say what a run gave and what it cost in privacy."""
    loss = f"privacy loss of the output: epsilon {epsilon(value['epsilon_spent'])} at delta {value['delta']:g}"
    if not value["iterations"] and value["epsilon_spent"] is not None:
        return f"learned from the private rows by DP-SGD; {loss}"
    if not value["iterations"]:
        return "trained on the private rows as they are; epsilon infinite (NOT PRIVATE)"
    if not value.get("dataset", True):
        return f"{value['n_synthetic']} synthetic texts; no private row was opened, epsilon 0"
    return f"{value['n_synthetic']} synthetic texts; {loss} in {value['releases']} releases"


def budget_lines(value: dict[str, Any]) -> list[str]:
    """Say what a finished run added to the budget, and how many of its releases earlier runs had paid for."""
    if not value.get("dataset"):
        return []
    charged = value.get("releases_charged")
    if charged is None:
        return ["budget      not recorded what this run added"]
    return [
        f"budget      added: epsilon {epsilon(value['epsilon_added'])} (releases: {charged} charged, "
        f"{value['releases'] - charged} reused from earlier runs)"
    ]


def scores(value: dict[str, Any]) -> str:
    """Say how the student did."""
    if value["accuracy"] is None:
        return "student not measured (no test rows)"
    return f"student accuracy {number(value['accuracy'])}, macro F1 {number(value['macro_f1'])} on test rows"


def _next(value: dict[str, Any], run_id: str) -> list[str]:
    steps = [f"show {run_id}"]
    if warnings_of_summary(value):
        commands = advice(value["flow"], value["dataset"] is not None, bool(value["iterations"]))
        steps += [f"{step}   ({purpose})" for step, purpose in commands]
    elif value["epsilon_spent"] is not None and value["iterations"]:
        steps.append(f"export {run_id} FOLDER")
    if value["dataset"]:
        steps.append(f"budget history {shlex.quote(value['dataset'])}")
    if value["tracking_problem"]:
        steps.append(f"push {run_id}")
    return [f"{command()} {step}" for step in steps]


def command() -> str:
    """Return what to type for this command here: `wasp` if the shell finds it, else its place."""
    place = Path(sys.argv[0])
    if place.name != "wasp" or shutil.which("wasp") is not None:
        return "wasp"
    return os.path.relpath(place)


def iterations(rows: Iterable[dict[str, Any]]) -> str:
    """Return the table of iterations: one if the terminal is wide enough, else one per quantity."""
    rows = list(rows)
    if not rows:
        return "no iteration is finished"
    columns = {"iteration": [row["iteration"] for row in rows]}
    plms = list(dict.fromkeys(plm for row in rows for plm in row["new"]))  # one that is down is left out of rounds
    weighed = [plm for plm in plms if any(plm in row["weights"] for row in rows)]
    new = {f"new {plm}": [row["new"].get(plm, 0) for row in rows] for plm in plms}
    weights = {f"weight {plm}": [number(row["weights"].get(plm), 3) for row in rows] for plm in weighed}
    measured = {
        "FID": [number(row["fid"]) + (" (not private)" if row["not_private"] else "") for row in rows],
        "accuracy so far": [number(row["accuracy"]) for row in rows],
        "epsilon so far": [epsilon(row["epsilon"]) for row in rows],
    }
    width = shutil.get_terminal_size((WIDE, 24)).columns
    whole = _columns(columns | new | weights | measured)
    if _width(whole) <= width:
        return whole
    parts = (part for group in (new, weights, measured) for part in _narrow(columns, group, width))
    return "\n\n".join(parts)


def _columns(columns: dict[str, list[Any]]) -> str:
    return table(list(zip(*columns.values(), strict=True)), list(columns))


def _width(lines: str) -> int:
    return max(len(line) for line in lines.split("\n"))


def _narrow(first: dict[str, list[Any]], group: dict[str, list[Any]], width: int) -> Iterable[str]:
    """Yield tables of `group` behind the columns of `first`, each with as many columns as `width` holds."""
    part: dict[str, list[Any]] = {}
    for head, cells in group.items():
        if part and _width(_columns(first | part | {head: cells})) > width:
            yield _columns(first | part)
            part = {}
        part[head] = cells
    yield _columns(first | part)


def preview(value: dict[str, Any]) -> str:
    """Show the previewed rows."""
    lines = []
    for row in value["rows"]:
        left_out = f"  [left out: {row['reason']}]" if row["reason"] else ""
        lines.append(f"{row['plm']:<14} {row['label']:<24} {row['text']}{left_out}")
    cost = f"{value['calls']} calls, {value['tokens_out']} tokens out, {_cost(value)}"
    return "\n".join([*lines, "", f"epsilon spent: 0; {cost}"])


def _cost(value: dict[str, Any]) -> str:
    """Return the dollars of a run or preview; summaries of earlier versions know no estimated part."""
    return f"{value['dollars']:.4f} dollars{of_which_estimated(value.get('dollars_estimated', 0.0))}"


def runs(value: dict[str, Any]) -> str:
    """List runs."""
    rows = [[run["run_id"], _state(run), _minute(run["started"]), *_result(run)] for run in value["runs"]]
    heads = ["run", "state", "started (UTC)", "epsilon added to budget", "epsilon of output", "accuracy"]
    return table(rows, heads) if rows else "no runs yet"


def _state(run: dict[str, Any]) -> str:
    return f"{run['state']}, with warnings" if run.get("warnings") else str(run["state"])


def _minute(when: str) -> str:
    return when[:16].replace("T", " ")


def _result(run: dict[str, Any]) -> list[str]:
    if run["n_synthetic"] is None:  # no summary: what it spent so far stands in the budget book
        return ["-", "-", "-"]
    added = "not recorded" if run.get("releases_charged") is None else epsilon(run["epsilon_added"])
    return [added, epsilon(run["epsilon_spent"]), number(run["accuracy"])]


def shown(value: dict[str, Any], finished: Callable[[dict[str, Any]], str] = summary) -> str:
    """Show one run, finished or not; `finished` words its summary."""
    if value.get("summary"):
        return finished(value["summary"])
    lines = [f"run     {value['run_id']}", f"state   {value['state']}"]
    return "\n".join(lines + [f"{name:<7} {value[name]}" for name in ("error", "removed") if value.get(name)])


def doctor(value: dict[str, Any]) -> str:
    """Show what the examination found."""
    return "\n".join(f"{'ok  ' if one['ok'] else 'FAIL'}  {one['what']:<16} {one['found']}" for one in value["checks"])


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).replace("-", "", 1).isdigit()
