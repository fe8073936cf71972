"""Expected effect of guidance on a run, from stored measurements with similar numbers."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.accounting.composition import mu_of

if TYPE_CHECKING:
    from flows.methods.wasp.config import WaspConfig

MEASURED = Path(__file__).with_name("guidance_measured.yaml")

SIMILAR = 1.5
"""Largest ratio between the signals of a measurement and of a run that count as similar."""


def expected_of(config: WaspConfig, classes: int) -> dict[str, Any] | None:
    """Return ranges of `picks` and `fid` (see guidance_measured.yaml) from similar measurements, and their names.

    Similar measurements have the same guidance and a signal within a factor of 1.5. The signal is rows mu /
    sqrt(classes), the shift from texts to rows in units of its noise. None if rows are not declared or no similar
    measurement exists. Uses public numbers only.
    """
    rows = config.private.public_number if config.private else None
    if rows is None or math.isinf(config.epsilon) or config.method.iterations < 2:
        return None
    signal = _signal(rows, classes, config.epsilon, config.privacy.delta)
    similar = [
        case
        for case in _measured()
        if case["guidance"] == config.method.guidance
        and 1 / SIMILAR <= _signal(case["rows"], case["classes"], case["epsilon"], case["delta"]) / signal <= SIMILAR
    ]
    if not similar:
        return None
    cases = [f"{case['data']}, {case['rows']} rows, epsilon {case['epsilon']:g}" for case in similar]
    names = ", ".join(dict.fromkeys(case["data"] for case in similar))
    text = f"in {len(similar)} comparisons with a similar signal ({names})"
    return {"picks": _range(similar, "picks"), "fid": _range(similar, "fid"), "measured": cases, "words": text}


def expected_lines(value: dict[str, Any] | None) -> list[str]:
    """Return the expected effect as lines of a plan."""
    if value is None:
        return []
    (low, high), (least, most) = value["picks"], value["fid"]
    return [
        f"expect        good examples at percentile {low:.2f} to {high:.2f} of closeness to real rows (0.5 is chance), "
        f"FID {least:.2f} to {most:.2f} times that of zero-shot texts",
        f"              as measured {value['words']}, docs/results/guidance.md",
    ]


def _signal(rows: int, classes: int, epsilon: float, delta: float) -> float:
    return rows * mu_of(epsilon, delta) / math.sqrt(classes)


def _range(similar: list[dict[str, Any]], name: str) -> list[float]:
    return [min(case[name][0] for case in similar), max(case[name][1] for case in similar)]


@cache
def _measured() -> tuple[dict[str, Any], ...]:
    import yaml

    return tuple(yaml.safe_load(MEASURED.read_text(encoding="utf-8")))
