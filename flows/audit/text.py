"""What an audit says: its plan, its table and its verdict, in the terminal and on the run's page."""

from __future__ import annotations

from typing import Any

from connectors.interfaces.money import format_dollars
from flows.engine.text import epsilon, table

HEADS = ("mechanism", "protects", "stated", "claimed", "proven at least", "fresh noise", "releases", "verdict")


def plan(value: dict[str, Any]) -> str:
    """Say what an audit will do."""
    lines = [
        "opens         nothing private: all records are made up, or public",
        f"spends        no budget; {_money(value['dollars_about'])}",
        f"draws         {value['draws']} noisy releases: {value['trials']} runs with and as many without the canary "
        f"for each of {len(value['mechanisms'])} mechanisms",
        f"bounds        hold with confidence {value['confidence']:g}",
    ]
    width = max(len(one["mechanism"]) for one in value["mechanisms"]) + 1
    for one in value["mechanisms"]:
        lines.append(
            f"{one['mechanism']:<{width}} {one['noise']} noise of scale {one['noise_scale']:.4f}, {one['releases']} "
            f"release(s), epsilon stated {epsilon(one['epsilon_stated'])}, claimed {epsilon(one['epsilon_claimed'])}, "
            f"delta {one['delta']:g}, one {one['protects']}, {one['adjacency']}; about {one['epsilon_likely']:.2f} "
            "will be proven if it is sound"
        )
    whole = value["pipeline"]
    if whole is not None:
        lines.append(
            f"whole run     {whole['samples']} texts by {', '.join(whole['models'])}, {whole['canaries']} canaries, "
            f"{whole['guesses']} guesses: at most {whole['epsilon_most']:.2f} of epsilon "
            f"{epsilon(whole['epsilon_claimed'])} can be proven, with confidence {whole['confidence']:g}"
        )
    return "\n".join(lines)


def _money(dollars: float) -> str:
    return f"about {format_dollars(dollars)} dollars for the whole run" if dollars else "no money"


def rows(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row per mechanism, and one for the whole run, by the heads of the table."""
    return [dict(zip(HEADS, _cells(one), strict=True)) for one in _all(value)]


def _all(value: dict[str, Any]) -> list[dict[str, Any]]:
    return [*value["mechanisms"], *([value["pipeline"]] if value["pipeline"] else [])]


def summary(value: dict[str, Any]) -> str:
    """Show a finished audit: its table, its verdict and where it is."""
    lines = [table([list(row.values()) for row in rows(value)], HEADS), "", sentence(value)]
    lines += [f"canaries    {line}" for line in guessed(value)]
    lines += [f"note        {line}" for line in notes(value)]
    lines += [f"red         {line}" for line in reasons(value)]
    return "\n".join([*lines, "", f"findings    {value['audit']}"])


def verdict(value: dict[str, Any]) -> str:
    """Return the verdict in Markdown, with what each attack found."""
    lines = [f"**{sentence(value)}**", "", *(f"- RED: {line}" for line in reasons(value))]
    lines += [f"- NOTE: {line}" for line in notes(value)] + [f"- {line}" for line in guessed(value)]
    for one in value["mechanisms"]:
        lines += [f"- {one['mechanism']}, {found['what']}: at least {_epsilon(found)}; {found['remark']}"
                  for found in one["findings"]]  # fmt: skip
        lines += [f"- {one['mechanism']}: {one['freshness']}; {one['number']}"]
    return "\n".join([*lines, "", "A passed attack proves nothing beyond itself.", f"Findings: `{value['audit']}`"])


def sentence(value: dict[str, Any]) -> str:
    """Say the verdict, what it rests on and what it cost."""
    head = "No attack proves more than is claimed" if value["passed"] else "Audit is RED"
    return (
        f"{head}; {value['trials']} runs with and as many without the canary per mechanism, confidence "
        f"{value['confidence']:g}; epsilon spent 0; {value['seconds']:.0f} s"
    )


def guessed(value: dict[str, Any]) -> list[str]:
    """Return what each attack on a whole run found, if one was attacked."""
    whole = value["pipeline"]
    return [] if whole is None else [_guess(one) for one in whole["attacks"]]


def _guess(one: dict[str, Any]) -> str:
    low, high = one["interval"]
    return (
        f"whole run, by {one['what']}: AUC {one['auc']:.3f} (95 % interval {low:.3f} to {high:.3f}), "
        f"{one['hits']:.1%} found at 1 % false alarms, {one['correct']} of {one['guesses']} guesses right, at least "
        f"epsilon {one['bound']:.4f}"
    )


def notes(value: dict[str, Any]) -> list[str]:
    """Return where a printed epsilon is no guarantee: more is accounted for than was stated."""
    return [
        f"{one['mechanism']}: the printed epsilon {epsilon(one['epsilon_stated'])} is no guarantee for one "
        f"{one['protects']}, which can cost {epsilon(one['epsilon_claimed'])}; at least {_epsilon(one)} is proven"
        for one in value["mechanisms"]
        if not one["stated_holds"]
    ]


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
        name = one["mechanism"]
        found += [] if one["sound"] else [_too_much(one)]
        found += [] if one["fresh"] else [f"{name}: noise is not fresh ({one['freshness']})"]
        found += [] if one["number_kept"] else [f"{name}: more releases than planned ({one['number']})"]
    whole = value["pipeline"]
    return found if whole is None or whole["passed"] else [*found, _too_much(whole)]


def _too_much(one: dict[str, Any]) -> str:
    return (
        f"{one['mechanism']}: epsilon {epsilon(one['epsilon_claimed'])} is claimed, at least {_epsilon(one)} is proven "
        f"at delta {one['delta']:g}"
    )


def _epsilon(one: dict[str, Any]) -> str:
    return f"epsilon {one['epsilon_proven']:.4f}"


def _cells(one: dict[str, Any]) -> list[Any]:
    verdict_ = "passed" if one["passed"] else "RED"
    return [
        one["mechanism"],
        f"{one['protects']}, {one['adjacency']}",
        epsilon(one["epsilon_stated"]),
        epsilon(one["epsilon_claimed"]),
        epsilon(one["epsilon_proven"]),
        "yes" if one.get("fresh", True) else "NO",
        one["releases"],
        verdict_ if one.get("stated_holds", True) else f"{verdict_}, stated is no guarantee",
    ]
