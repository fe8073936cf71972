"""What to expect of guidance by these numbers: a band from comparisons that were carried out."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.accounting.composition import mu_of

if TYPE_CHECKING:
    from flows.methods.wasp.config import WaspConfig

MEASURED = Path(__file__).with_name("guidance_measured.yaml")

ALIKE = 1.5
"""How many times as much signal, or as little, a comparison may have had to stand for a run."""


def expected_of(config: WaspConfig, classes: int) -> dict[str, Any] | None:
    """Return bands of `picks` and `fid` (see guidance_measured.yaml) of comparisons like a run, and which they are.

    What is alike has the same guidance and, within a factor of 1.5, as much signal: rows mu / sqrt(classes), the shift
    from texts to rows in units of its noise. None where rows are not declared, or nothing alike was measured. Public
    numbers only.
    """
    rows = config.private.rows if config.private else None
    kernel = config.method.density.name if config.method.density else "cosine"
    if rows is None or kernel == "gaussian":
        return None
    if math.isinf(config.epsilon) or config.method.iterations < 2:
        return None
    wanted = _signal(rows, classes, config.epsilon, config.privacy.delta)
    alike = [
        one
        for one in _measured()
        if one["guidance"] == config.method.guidance
        and 1 / ALIKE <= _signal(one["rows"], one["classes"], one["epsilon"], one["delta"]) / wanted <= ALIKE
    ]
    if not alike:
        return None
    told = [f"{one['data']}, {one['rows']} rows, epsilon {one['epsilon']:g}" for one in alike]
    names = ", ".join(dict.fromkeys(one["data"] for one in alike))
    words = f"in {len(alike)} places with as much signal ({names})"
    return {"picks": _band(alike, "picks"), "fid": _band(alike, "fid"), "measured": told, "words": words}


def expected_lines(value: dict[str, Any] | None) -> list[str]:
    """Return what to expect, in lines of a plan."""
    if value is None:
        return []
    (low, high), (least, most) = value["picks"], value["fid"]
    return [
        f"expect        good examples at percentile {low:.2f} to {high:.2f} of closeness to real rows (0.5 is chance), "
        f"FID {least:.2f} to {most:.2f} times that of zero-shot texts",
        f"              as measured {value['words']}, python -m tests.studies.guidance",
    ]


def _signal(rows: int, classes: int, epsilon: float, delta: float) -> float:
    return rows * mu_of(epsilon, delta) / math.sqrt(classes)


def _band(alike: list[dict[str, Any]], name: str) -> list[float]:
    return [min(one[name][0] for one in alike), max(one[name][1] for one in alike)]


@cache
def _measured() -> tuple[dict[str, Any], ...]:
    import yaml

    return tuple(yaml.safe_load(MEASURED.read_text(encoding="utf-8")))
