"""Expected gain of opening the private rows, from stored measurements with a similar opening index."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from tasks.accounting.density import calibrate_density
from tasks.accounting.sensitivity import VotePrivacy
from tasks.density.opening import CLOSED, Opening, choose_opening, opening_index, remedies

MEASURED = Path(__file__).with_name("opening_measured.yaml")
"""Output of `python -m tests.studies.guidance.opening`; docs/results/guidance_auto.md describes it."""

SIMILAR = 1.5
"""Largest ratio between the indices of a measurement and of a run that count as similar."""

WORTH = 0.01
"""Median gain below which the advice is to keep the budget."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The expected worth of opening the rows; public numbers only.

    `head`: lowest, median and highest mean gain in accuracy of the student over zero-shot texts; `soft`: of a student
    of exported texts with soft labels over soft labels that open no row. Both are empty without a similar measurement.
    `places`: the measurements, as data set, rows and epsilon.
    """

    rows: int
    classes: int
    epsilon: float
    sigma: float
    index: float
    opening: Opening
    head: tuple[float, ...]
    soft: tuple[float, ...]
    places: tuple[str, ...]

    @property
    def opens(self) -> bool:
        """True if the rule opens the rows and similar measurements gained something."""
        return self.opening != "none" and (not self.head or self.head[1] >= WORTH)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self) | {"opens": self.opens}


def advise(rows: int, classes: int, epsilon: float, delta: float) -> Advice:
    """Return the advice for a declared number of rows, a number of classes and a guarantee per record."""
    sigma = calibrate_density(VotePrivacy(epsilon, delta, 1, votes=1, sides=1)).sigma
    index, opening = opening_index(rows, classes, sigma), choose_opening(rows, classes, sigma)
    places = similar_places(index, opening, classes)
    names = tuple(f"{case['data']}, {case['rows']} rows, epsilon {case['epsilon']:g}" for case in places)
    gains = [_range([case[kind][0] for case in places]) for kind in ("head", "soft")]
    return Advice(rows, classes, epsilon, sigma, index, opening, gains[0], gains[1], names)


def similar_places(index: float, opening: Opening, classes: int) -> list[dict[str, Any]]:
    """Return the measurements with the same map whose index is within a factor of 1.5.

    Only those with half to twice as many classes, if there are any.
    """
    if opening == "none":
        return []
    ratios = [(case, case["index"] / index) for case in _measured() if case["opening"] == opening]
    cases = [case for case, ratio in ratios if 1 / SIMILAR <= ratio <= SIMILAR]
    return [case for case in cases if 0.5 <= case["classes"] / classes <= 2] or cases


def advice_lines(advice: Advice) -> list[str]:
    """Return the advice as lines of the terminal."""
    if advice.opening == "none":
        change = remedies(advice.rows, advice.classes, advice.sigma)
        fewer = f", or at most {change.classes} classes" if change.classes else ""
        return [
            "advice        keep your budget: with these numbers no release that was measured improved the student",
            f"              to open the rows: {change.rows} rows{fewer}, or a larger privacy.epsilon",
        ]
    if not advice.head:
        return ["advice        open the rows; nothing with a similar index was measured"]
    (low, middle, high), (least, between, most) = advice.head, advice.soft
    verdict = "open the rows" if advice.opens else "keep your budget: similar measurements gained nothing"
    return [
        f"expect        student {100 * middle:+.0f} points of accuracy over texts alone ({100 * low:+.0f} to "
        f"{100 * high:+.0f}), exported texts with soft labels {100 * between:+.0f} ({100 * least:+.0f} to "
        f"{100 * most:+.0f})",
        f"              in {len(advice.places)} similar measurements: {'; '.join(advice.places)}",
        f"advice        {verdict}",
    ]


def advice_text(value: dict[str, Any]) -> str:
    """Return the whole advice, with the lines of a configuration that follow it."""
    fields: dict[str, Any] = {name: entry for name, entry in value.items() if name != "opens"}
    advice = Advice(**fields)
    head = (
        f"index         {advice.index:.1f} = {advice.rows} rows / ({advice.classes} classes x sigma {advice.sigma:.2f})"
        f" at epsilon {advice.epsilon:g}; rows are opened from {CLOSED:g} on"
    )
    if advice.opening != "none" and not advice.opens:
        settings = ["set           private: null   (texts without private rows, epsilon 0)"]
    else:
        settings = [
            f"set           private.declared_rows: {advice.rows}",
            "              method.guidance: auto",
            f"              privacy.epsilon: {advice.epsilon:g}",
        ]
    return "\n".join([head, *advice_lines(advice), *settings])


def _range(values: list[float]) -> tuple[float, ...]:
    return (min(values), median(values), max(values)) if values else ()


@cache
def _measured() -> tuple[dict[str, Any], ...]:
    import yaml

    return tuple(yaml.safe_load(MEASURED.read_text(encoding="utf-8")))
