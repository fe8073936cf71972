"""What an audit says: its plan, its table and its verdict, in the terminal and on the run's page."""

from __future__ import annotations

from typing import Any

from flows.words import epsilon, table

HEADS = ("mechanism", "protects", "stated", "claimed", "proven at least", "fresh noise", "releases", "verdict")


def plan(value: dict[str, Any]) -> str:
    """Say what an audit will do."""
    lines = [
        "opens         nothing: all records are made up",
        "spends        nothing: no budget, no money",
        f"draws         {value['draws']} noisy votes: {value['trials']} runs with and as many without the canary for "
        f"each of {len(value['mechanisms'])} mechanisms, {value['releases']} releases a run",
        f"bounds        hold with confidence {value['confidence']:g}",
    ]
    for one in value["mechanisms"]:
        lines.append(
            f"{one['calibration']:<13} sigma {one['sigma']:.4f} votes, epsilon stated {epsilon(one['epsilon_stated'])}"
            f", claimed {epsilon(one['epsilon_claimed'])}, delta {one['delta']:g}, one {one['protects']}, "
            f"{one['adjacency']}; about {one['epsilon_likely']:.2f} will be proven if it is sound"
        )
    return "\n".join(lines)


def rows(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row per mechanism, by the heads of the table."""
    return [dict(zip(HEADS, _cells(one), strict=True)) for one in value["mechanisms"]]


def summary(value: dict[str, Any]) -> str:
    """Show a finished audit: its table, its verdict and where it is."""
    lines = [table([list(row.values()) for row in rows(value)], HEADS), "", sentence(value)]
    lines += [f"red         {line}" for line in reasons(value)]
    return "\n".join([*lines, "", f"findings    {value['audit']}"])


def verdict(value: dict[str, Any]) -> str:
    """Return the verdict in Markdown, with what each attack found."""
    lines = [f"**{sentence(value)}**", "", *(f"- RED: {line}" for line in reasons(value))]
    for one in value["mechanisms"]:
        lines += [f"- {one['calibration']}, {found['what']}: at least {_epsilon(found)}; {found['remark']}"
                  for found in one["findings"]]  # fmt: skip
        lines += [f"- {one['calibration']}: {one['freshness']}; {one['number']}"]
    return "\n".join([*lines, "", "A passed attack proves nothing beyond itself.", f"Findings: `{value['audit']}`"])


def sentence(value: dict[str, Any]) -> str:
    """Say the verdict, what it rests on and what it cost."""
    head = "No attack proves more than is claimed" if value["passed"] else "Audit is RED"
    return (
        f"{head}; {value['trials']} runs with and as many without the canary per mechanism, confidence "
        f"{value['confidence']:g}; epsilon spent 0; {value['seconds']:.0f} s"
    )


def red(value: dict[str, Any]) -> str:
    """Say what is wrong and what to do, for whoever must act on it."""
    return (
        f"The audit is red: {'; '.join(reasons(value))}. Share nothing that was released with this mechanism, and find "
        f"what weakens its noise; findings: {value['audit']}"
    )


def reasons(value: dict[str, Any]) -> list[str]:
    """Return why an audit is red, empty if it is not."""
    found = []
    for one in value["mechanisms"]:
        name = one["calibration"]
        if not one["sound"]:
            found.append(
                f"{name}: epsilon {epsilon(one['epsilon_claimed'])} is claimed, at least {_epsilon(one)} is proven "
                f"at delta {one['delta']:g}"
            )
        found += [] if one["fresh"] else [f"{name}: noise is not fresh ({one['freshness']})"]
        found += [] if one["number_kept"] else [f"{name}: more releases than planned ({one['number']})"]
    return found


def _epsilon(one: dict[str, Any]) -> str:
    return f"epsilon {one['epsilon_proven']:.4f}"


def _cells(one: dict[str, Any]) -> list[Any]:
    return [
        one["calibration"],
        f"{one['protects']}, {one['adjacency']}",
        epsilon(one["epsilon_stated"]),
        epsilon(one["epsilon_claimed"]),
        epsilon(one["epsilon_proven"]),
        "yes" if one["fresh"] else "NO",
        one["releases"],
        "passed" if one["passed"] else "RED",
    ]
