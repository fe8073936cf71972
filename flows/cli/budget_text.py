"""What the commands of the budget book print without --json."""

from __future__ import annotations

from typing import Any

from flows.engine.text import epsilon, table


def budgets(value: dict[str, Any]) -> str:
    """Show where the budgets of datasets stand."""
    rows = [
        [
            one["dataset"],
            "none set" if one["cap"] is None else f"{one['cap']:g} per {one['cap_protects']}",
            epsilon(one["spent"]),
            f"{one['reserved']:.4f}",
            "no limit" if one["left"] is None else f"{one['left']:.4f}",
            "-" if one["delta"] is None else f"{one['delta']:g}",
            one["releases"],
            ", ".join(one["units"]) or "-",
            "yes: something left without noise" if one["exposed"] else "no",
            f"{one['group']} (with {', '.join(one['members'])})" if one["members"] else one["group"] or "-",
        ]
        for one in value["datasets"]
    ]
    heads = ["dataset", "cap", "spent", "reserved", "left", "delta", "releases", "protected", "exposed", "group"]
    return table(rows, heads) if rows else "the budget book is empty"


def history(value: dict[str, Any]) -> str:
    """List the entries of a dataset."""
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
    """Say what does not hold in the budget book, or that it is sound; and which files of releases are not there."""
    problems = [f"PROBLEM  {one}" for one in value["problems"]] or ["the budget book is sound"]
    return "\n".join([*problems, *(f"missing  {one}" for one in value["missing"])])
