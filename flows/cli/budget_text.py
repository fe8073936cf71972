"""Format the output of the ledger commands for the terminal."""

from __future__ import annotations

from typing import Any

from flows.engine.text import epsilon, table


def budgets(value: dict[str, Any]) -> str:
    """Return the budget status of datasets as a table."""
    rows = [
        [
            status["dataset"],
            _cap(status),
            epsilon(status["spent"]),
            f"{status['reserved']:.4f}",
            "no limit" if status["left"] is None else f"{status['left']:.4f}",
            "-" if status["delta"] is None else f"{status['delta']:g}",
            status["releases"],
            ", ".join(status["units"]) or "-",
            "yes: released without noise" if status["exposed"] else "no",
            _group(status),
        ]
        for status in value["datasets"]
    ]
    heads = ["dataset", "cap", "spent", "reserved", "left", "delta", "releases", "protected", "exposed", "group"]
    return table(rows, heads) if rows else "the privacy ledger is empty"


def _group(status: dict[str, Any]) -> str:
    if not status["members"]:
        return status["group"] or "-"
    because = f"; {', '.join(status['reasons'])}" if status["reasons"] else ""
    return f"{status['group']} (with {', '.join(status['members'])}{because})"


def _cap(status: dict[str, Any]) -> str:
    if status["cap"] is None:
        return "none set"
    cap = f"{status['cap']:g} per {status['cap_protects']}"
    part = status["trainings"]
    if part is None or part[0] == 0:
        return cap
    return f"{cap} ({part[0]:.4g} at {part[1]:.3g} for trainings)"


def history(value: dict[str, Any]) -> str:
    """Return the entries of a dataset as a table."""
    rows = [
        [
            entry["number"],
            entry["at"][:19].replace("T", " "),
            entry["who"],
            entry["kind"],
            entry["run_id"] or "-",
            entry["slot"] or "-",
            entry["mechanism"] or "-",
            "-" if entry["epsilon"] is None else f"{entry['epsilon']:.4f}",
        ]
        for entry in value["entries"]
    ]
    return table(rows, ["no", "when (UTC)", "who", "what", "run", "slot", "mechanism", "epsilon after"])


def verified(value: dict[str, Any]) -> str:
    """Return the problems of the ledger as text."""
    return "\n".join(f"PROBLEM  {problem}" for problem in value["problems"]) or "the privacy ledger is sound"
