"""How plan and summary speak of the parties of a federated run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_NAMES = 6
READ_BACK = "read back from the budget book, no party was asked"


def planned_lines(told: Mapping[str, Any], epsilon: Any) -> list[str]:
    """Say who takes part, what each is charged, and what holds when some collude."""
    names = told["names"]
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    lines = [
        f"parties       {told['number']} ({shown}), at least {told['minimum']} in each sum; each is waited for "
        f"{told['minutes']:g} minutes",
        f"each party    pays these releases from its own budget book and adds noise of sigma {told['share']:.4f} votes",
        f"sends         {told['bytes_up_first_round']} bytes of masked counts in the first round, "
        f"{told['histograms']} for each text; gets vectors as {told['embeddings']}",
    ]
    stated = told["colluding"]
    for one in told["guarantees"]:
        kept = "kept" if one["promised"] else "NOT kept"
        mark = " (stated)" if one["colluding"] == stated else ""
        lines.append(
            f"if {one['colluding']:>3} collude{mark}: epsilon {epsilon(one['epsilon'])}, the promise is {kept}"
        )
    return lines


def happened_lines(told: Mapping[str, Any]) -> list[str]:
    """Say what travelled in each round, and who was dropped."""
    lines = []
    for one in told["rounds"]:
        lines.append(f"parties     iteration {one['iteration']}: {_round(one)}")
        lines += [f"            without {party}: {why}" for party, why in one["dropped"].items()]
    return lines


def _round(one: Mapping[str, Any]) -> str:
    ways = one["bytes"]
    took = (
        f"{one['parties']} in attempt {one['attempt']}, {ways['down']} bytes down, {ways['between']} between, "
        f"{ways['up']} up"
    )
    if not one.get("read_back"):
        return took
    return f"{READ_BACK}; when it was summed: {took}" if one["parties"] else f"{READ_BACK}, whose round is gone"
