"""Decision of `method.guidance: auto` on opening the private rows, and the expected worth, from public numbers.

The index I = rows / (classes sigma) compares the number of rows of a class with the noise of its released sum. Rows are
declared, never counted: the decision is public and costs no budget. The worth comes from the measurements in
`opening_measured.yaml`: per data set, the share of the errors of texts alone that a release removes, fitted so that it
never falls as the index grows. More rows or a larger epsilon therefore never close the rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import ClassVar, Final, Self

from connectors.interfaces.json_values import Json
from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import gaussian_sigma
from tasks.private.release import Release, Released
from tasks.reporting.terminal import table
from tasks.reporting.text import certainty

MEASURED = Path(__file__).with_name("opening_measured.yaml")
"""Measurements that docs/results/guidance_auto.md describes, as the files below."""
MORE_MEASURED = Path(__file__).with_name("more_texts_measured.yaml")
"""Measurements with 2,000 texts, as `wasp init` writes them for ten classes."""
UNNAMED_MEASURED = Path(__file__).with_name("unnamed_measured.yaml")
"""Measurements with class names that say nothing to a language model."""

CLOSED: Final = 8.0
"""Index below which no measured release improved the student by more than it cost."""

WORTH: Final = 0.01
"""Expected gain in accuracy below which the rows stay closed."""

LEVELS = 0.5, 1.0, 2.0, 4.0, 8.0
"""Epsilons that `wasp advise --range` compares."""

MAX_EPSILON = 64.0
"""Largest epsilon that a plan suggests."""

LABEL_WIDTH: Final = 14
"""Characters before the text of a line in a plan."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Measurements of one data set, by ascending index.

    `floor`: mean accuracy of zero-shot texts, the better of hard and soft labels. `shares`: the part of the errors
    above the floor that labels by the release remove.
    """

    data: str
    classes: int
    floor: float
    indices: tuple[float, ...]
    shares: tuple[float, ...]

    def share(self, index: float) -> float:
        """Return the share at the largest measured index up to `index`."""
        reached = sum(measured <= index for measured in self.indices)
        return self.shares[max(reached - 1, 0)]


@dataclass(frozen=True, slots=True)
class UseDecision:
    """The decision of `auto` for declared rows, a number of classes and a noise; public numbers only.

    `rows`: protected units, which are persons where `protects` is `person`. `zero_shot`: accuracy of zero-shot texts on
    test rows, if measured. `language`: that of the texts if it is not English, which all measurements are of.
    `unnamed`: the class names are numbers or codes without descriptions. These three change the forecast, never the
    decision.
    """

    rows: int
    classes: int
    sigma: float
    zero_shot: float | None = None
    protects: str = "record"
    language: str = ""
    unnamed: bool = False

    @property
    def units(self) -> str:
        """Name of the unit that `rows` counts."""
        if self.protects == "person":
            return "persons"
        return "rows"

    @property
    def index(self) -> float:
        """I = rows / (classes sigma); infinite without noise. `sigma`: of features of length at most 1."""
        if self.sigma <= 0:
            return math.inf
        return self.rows / (self.classes * self.sigma)

    @property
    def opens(self) -> bool:
        """True if the rows are opened."""
        return self.index >= least_index(self.classes)

    @property
    def gains(self) -> tuple[float, float] | None:
        """Lowest and highest expected gain in accuracy over texts alone, among data sets of similar classes.

        None for texts without classes, and for texts in another language than the measured ones.
        """
        if self.classes == 1 or self.language:
            return None
        return self._gains(self.curves)

    @property
    def gains_of_means(self) -> tuple[float, float]:
        """Lowest and highest expected gain of the release's class means, for unnamed classes."""
        return self._gains(unnamed_curves("means"))

    @property
    def curves(self) -> list[Curve]:
        """The data sets whose measurements make the forecast."""
        if self.unnamed:
            return unnamed_curves("file")
        return similar_curves(self.classes)

    def _gains(self, curves: Sequence[Curve]) -> tuple[float, float]:
        gains = []
        for curve in curves:
            floor = curve.floor if self.zero_shot is None else self.zero_shot
            # A share of the errors that are left: a gain in points would depend on how good texts alone are.
            gains.append(curve.share(self.index) * (1 - floor))
        return min(gains), max(gains)

    def to_json(self) -> Json:
        """Return plain JSON values; an infinite index is None."""
        least = least_index(self.classes)
        about: Json = {}
        # Left out for English and for named classes, as in plans of earlier versions.
        if self.language:
            about["language"] = self.language
        if self.unnamed:
            about["unnamed"] = True
        return about | {
            "rows": self.rows,
            "protects": self.protects,
            "classes": self.classes,
            "sigma": self.sigma,
            "index": _finite(self.index),
            "least_index": _finite(least),
            "map": "cosine" if self.opens else "none",
            "opens": self.opens,
            "zero_shot": self.zero_shot,
            "gains": self.gains,
            "measured": [f"{curve.data} ({curve.classes} classes)" for curve in self.curves],
        }

    @classmethod
    def from_json(cls, values: Json) -> Self:
        """Return the opening of a plan, without a measured accuracy; plans of earlier versions count rows."""
        return cls(
            values["rows"],
            values["classes"],
            values["sigma"],
            protects=values.get("protects", "record"),
            language=values.get("language", ""),
            unnamed=values.get("unnamed", False),
        )

    def needed_rows(self) -> int | None:
        """Return the least number of rows that opens them; None if none does."""
        least = least_index(self.classes)
        if math.isinf(least):
            return None
        return math.ceil(least * self.classes * self.sigma)

    def most_classes(self) -> int | None:
        """Return the largest number of classes below this one that opens the rows; None if none does."""
        for number in range(self.classes - 1, 1, -1):
            if UseDecision(self.rows, number, self.sigma).opens:
                return number
        return None

    def needed_epsilon(self, start: float, delta: float, sensitivity: float) -> float | None:
        """Return the least epsilon above `start` that opens the rows, rounded up to a tenth; None above 64.

        `delta`, `sensitivity`: those of the release that opened rows would get.
        """
        # Whole tenths, because sums of 0.1 drift.
        tenths = math.floor(start * 10) + 1
        most = self.rows / (self.classes * least_index(self.classes))
        while tenths <= 10 * MAX_EPSILON:
            # A margin for rounding: a run with this epsilon must really open the rows.
            if gaussian_sigma(tenths / 10, delta, sensitivity) * (1 + 1e-5) <= most:
                return tenths / 10
            # From epsilon 10 on, in steps of 1: a finer answer is of no use there.
            tenths += 1 if tenths < 100 else 10
        return None


def _finite(index: float) -> float | None:
    if math.isinf(index):
        return None
    return index


@cache
def least_index(classes: int) -> float:
    """Return the smallest index that opens the rows; infinite if no measurement with similar classes gained enough.

    The index is at least `CLOSED`, and the median gain over similar data sets is at least `WORTH`.
    """
    curves = similar_curves(classes)

    def worth(index: float) -> float:
        return median(curve.share(index) * (1 - curve.floor) for curve in curves)

    # The worth is a step function, which changes at measured indices only, and never falls.
    measured = {index for curve in curves for index in curve.indices}
    steps = sorted({CLOSED, *(index for index in measured if index > CLOSED)})
    return next((index for index in steps if worth(index) >= WORTH), math.inf)


def similar_curves(classes: int) -> list[Curve]:
    """Return the data sets with half to twice as many classes, or all if there are none."""
    curves = _curves()
    return [curve for curve in curves if 0.5 <= curve.classes / classes <= 2] or curves


@cache
def measured_cells(path: Path = MEASURED) -> tuple[Json, ...]:
    """Return the measurements of a file; by default those that open rows."""
    import yaml

    return tuple(yaml.safe_load(path.read_text(encoding="utf-8")))


@cache
def unnamed_curves(result: str) -> list[Curve]:
    """Return the data sets with unnamed classes; `result`: file (the exported texts) or means (class means)."""
    return _fitted(measured_cells(UNNAMED_MEASURED), result)


@cache
def _curves() -> list[Curve]:
    return _fitted(measured_cells(), "file")


def _fitted(measured: Sequence[Json], result: str) -> list[Curve]:
    from scipy.optimize import isotonic_regression

    curves = []
    for data in dict.fromkeys(cell["data"] for cell in measured):
        of_data = [cell for cell in measured if cell["data"] == data]
        cells = sorted(of_data, key=lambda cell: cell["index"])
        indices = tuple(float(cell["index"]) for cell in cells)
        removed = [(cell[result] - cell["zero_shot"]) / (1 - cell["zero_shot"]) for cell in cells]
        # The nearest curve that never falls: more rows or a larger epsilon must not close the rows.
        shares = tuple(isotonic_regression(removed).x.tolist())
        floor = fmean(cell["zero_shot"] for cell in cells)
        curves.append(Curve(data, cells[0]["classes"], floor, indices, shares))
    return curves


def opening_lines(opening: UseDecision) -> list[str]:
    """Return the decision and the expected worth as lines of a plan."""
    if math.isinf(opening.index):
        return ["opening       no noise: the density of whole vectors"]
    least = least_index(opening.classes)
    if opening.opens:
        result = f"at least {least:.1f}: the rows are opened for one density of whole vectors"
    elif math.isfinite(least):
        result = f"below {least:.1f}: the private rows stay closed, no budget is used"
    else:
        result = "too few at any index: the private rows stay closed, no budget is used"
    line = (
        f"opening       index {opening.index:.1f} = {opening.rows} {opening.units} / ({opening.classes} classes x "
        f"sigma {opening.sigma:.2f}), {result}"
    )
    if not opening.opens:
        return [line, KEEP]
    return [line, *forecast_lines(opening)]


KEEP = (
    "advice        keep your budget: at this index measured releases gained less than 1 point of accuracy over texts "
    "alone"
)


WITHOUT_CLASSES = (
    "expect        texts closer to the private records in meaning, FID 12 to 26 % lower on one data set (banking)",
    "              with texts of the bundled model, a next-word model of them was no better than of texts alone",
)
"""Forecast for texts without classes; docs/results/guidance_auto.md has the measurement."""


def forecast_lines(opening: UseDecision) -> list[str]:
    """Return the expected gain of open rows, the range first."""
    if opening.language:
        return [
            f"expect        not known: all measurements are of English texts, and the task is in {opening.language}"
        ]
    if opening.gains is None:
        return list(WITHOUT_CLASSES)
    if opening.unnamed:
        return [
            f"expect        {_range(opening.gains)} points of accuracy over texts alone for the exported texts: the "
            "names of the classes say nothing to a language model",
            f"              {_range(opening.gains_of_means)} for the class means of the release (release_head of the "
            "bundle); describe the classes in the task file if you may",
        ]
    quality = "depends on how good the texts already are"
    if opening.zero_shot is not None:
        quality = f"with the measured accuracy of texts alone, {100 * opening.zero_shot:.1f} %"
    few = measured_cells()
    more = measured_cells(MORE_MEASURED)
    return [
        f"expect        {_range(opening.gains)} points of accuracy over texts alone for the exported texts; {quality}",
        f"              over the best floor, which includes the same release without any text: {_mean_gain(few)} on "
        f"average of {len(few)} measurements with 600 texts each, {_mean_gain(more)} of {len(more)} with 2,000; none "
        "is of medical texts",
    ]


def _mean_gain(cells: Sequence[Json]) -> str:
    return f"{100 * fmean(cell['gain'] for cell in cells):+.1f}"


def with_zero_shot(plan: Json, accuracy: float) -> Json:
    """Return a plan whose forecast uses the accuracy of zero-shot texts that an earlier run measured on test rows."""
    values = plan["opening"]
    before = UseDecision.from_json(values)
    after = replace(before, zero_shot=accuracy)
    lines = dict(zip(forecast_lines(before), forecast_lines(after), strict=True))
    return plan | {
        "opening": after.to_json(),
        "lines": [lines.get(line, line) for line in plan["lines"]],
    }


def _range(gains: tuple[float, float] | None) -> str:
    if gains is None:
        return "not measured"
    low, high = (f"{100 * gain:+.0f}" for gain in gains)
    if low == high:
        return low
    return f"{low} to {high}"


def remedy_line(opening: UseDecision, epsilon: float | None) -> str:
    """Return the single changes that would open the rows; `epsilon`: the least that does."""
    rows = opening.needed_rows()
    classes = opening.most_classes()
    ways = []
    if rows:
        ways.append(f"{rows} {opening.units}")
    if classes:
        ways.append(f"at most {classes} classes")
    if epsilon:
        ways.append(f"privacy.epsilon {epsilon:g}")
    by_guidance = "set method.guidance: kernel or votes"
    if ways:
        by_guidance = f"{', or '.join(ways)}. Or {by_guidance}"
    return f"              to open them: {by_guidance}"


def advice_text(value: Json) -> str:
    """Return the output of `wasp advise`: the decision, and the lines of a configuration that follow it."""
    opening = UseDecision.from_json(value)
    follow = [
        f"set           private.declared_rows: {opening.rows}",
        "              method.guidance: auto",
        f"              privacy.epsilon: {value['epsilon']:g}",
    ]
    if not opening.opens:
        close = "set           private: null   (texts without private rows, epsilon 0)"
        follow = [remedy_line(opening, value["needed_epsilon"]), close]
    return "\n".join([*opening_lines(opening), *follow])


def range_text(levels: Sequence[Json]) -> str:
    """Return the output of `wasp advise --range`: a row for each epsilon, with the rest of the cap."""
    rows = []
    for value in levels:
        opening = UseDecision.from_json(value)
        gain = "closed"
        sure = certainty(0)
        if opening.opens:
            gain = _range(opening.gains)
            sure = certainty(value["epsilon"])
        # Without a configuration there is no dataset, and a dataset may have no cap.
        budget = value["budget"]
        cap = ""
        if budget and budget["cap"] is not None:
            cap = f"{budget['left']:.4g} of {budget['cap']:.4g} left"
        if budget and budget["refusal"]:
            cap += ", refused"
        rows.append([f"{value['epsilon']:g}", gain, f"{100 * sure:.2f} %", cap])
    note = f"Points of accuracy over texts alone; {forecast_lines(opening)[-1].strip()}"
    return f"{table(rows, ['epsilon', 'exported texts', 'attacker, from 50 %', 'cap'])}\n{note}"


@dataclass(frozen=True, slots=True)
class ClosedRows(Release):
    """A decision against any release: no private row is opened and no budget is spent.

    `epsilon`: of the privacy settings. `delta`, `sensitivity`: those that a release would have had.
    """

    opening: UseDecision
    epsilon: float
    delta: float
    sensitivity: float
    name: ClassVar[str] = "closed"
    noise: ClassVar[None] = None

    def charges(self) -> tuple[Charge, ...]:
        """Return no charge."""
        return ()

    def plan(self) -> Sequence[str]:
        """Return the reason and the changes that would open the rows."""
        epsilon = self.opening.needed_epsilon(self.epsilon, self.delta, self.sensitivity)
        return (*opening_lines(self.opening), remedy_line(self.opening, epsilon))

    def outcome(self) -> Released:
        """Return the decision as a sentence."""
        least = least_index(self.opening.classes)
        return Released(
            self.name,
            "closed",
            text=f"nothing: the private rows stayed closed (opening index {self.opening.index:.1f} < {least:.1f})",
        )
