"""Usefulness of a run: its accuracies, with chance and the baselines that they must exceed.

The baselines use no private data, or no texts. A run that learned nothing finishes like any other, hence its result
must state this wherever it is shown.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.students.spec import NEXT_WORD

CONFIDENCE = 0.95
INTERVAL = "95 % Clopper-Pearson"
"""The exact binomial interval over test rows, valid for every accuracy and every number of rows."""

ACCURACIES: Mapping[str, str] = {
    "accuracy": "new classifier of the exported texts",
    "adapted_accuracy": "the run's classifier, which also reads {}",
    "release_accuracy": "class means of the release, without texts",
    "public_accuracy": "public texts labelled by the release, without written ones",
    "guided_accuracy": "new classifier of as many texts as the baseline",
    "zero_shot_accuracy": "same models without private data",
}
"""Accuracies of a run on its test rows, by their name in the summary, in MLflow and in comparisons."""
ON_ROWS = "classifier trained on the private records"
FLOORS = ("release_accuracy", "public_accuracy", "zero_shot_accuracy")
BASELINES = ("guided_accuracy", *FLOORS)
BESIDE = ("adapted_accuracy", *FLOORS)
"""Accuracies that a comparison shows next to `accuracy`."""

MIN_HELD_OUT = 20
"""Least number of test rows, and of generated texts, below which no accuracy is measured."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A classifier's correct predictions on `rows` test rows.

    `texts`: the number of training texts, None for a classifier trained on rows or on a release. `loss`: nats per word
    of a next-word model, whose `rows` are words.
    """

    right: int
    rows: int
    texts: int | None = None
    loss: float | None = None

    @property
    def value(self) -> float:
        """The share of correct predictions."""
        return self.right / self.rows

    @property
    def interval(self) -> tuple[float, float]:
        """The exact binomial interval (Clopper and Pearson 1934)."""
        from scipy.special import betaincinv

        tail = (1 - CONFIDENCE) / 2
        wrong = self.rows - self.right
        # The beta distribution is undefined at both ends, where the bound is the end itself.
        low = 0.0
        high = 1.0
        if self.right:
            low = float(betaincinv(self.right, wrong + 1, tail))
        if wrong:
            high = float(betaincinv(self.right + 1, wrong, 1 - tail))
        return low, high

    def __str__(self) -> str:
        low, high = self.interval
        parts = [f"{100 * low:.0f}-{100 * high:.0f}"]
        if self.texts is not None:
            parts.append(f"{self.texts:,} texts")
        if self.loss is not None:
            parts.append(f"loss {self.loss:.2f} nats")
        return f"{_percent(self.value)} ({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class DiscriminatorTest:
    """Accuracies of a discriminator on test rows and equally many generated texts that took no part in its training.

    Chance is one half. `student`: the classifier that selects texts (Song et al. 2024, Figure 3).
    """

    student: Accuracy
    has_public_queries: bool = False

    @property
    def sentence(self) -> str:
        """The accuracy of the student with its interval and the rows."""
        half = self.student.rows // 2
        return (
            f"The classifier that selects texts has accuracy {self.student} on {half:,} test rows and {half:,} "
            f"generated texts that took no part in its training (chance 50 %, {INTERVAL} interval)."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the selection may be useless; empty if the student is better than chance."""
        if self.student.interval[0] > 0.5:
            return ()
        advice = "Use"
        if not self.has_public_queries:
            advice = "Set public rows, or use"
        return (
            f"the classifier that selects texts is not above chance ({self.student} of held-out texts, chance 50 %): "
            f"it selects almost at random. {advice} more private rows, a larger epsilon or fewer "
            "discriminator.queries.",
        )


@dataclass(frozen=True, slots=True)
class Baseline:
    """Classifiers of the kind `student` that were trained on equally many texts.

    `zero_shot`: texts of the same models before any release, with the labels that they were written for; `soft`: the
    same texts with soft labels, None in reports of earlier versions; `guided`: exported texts of the run; `public`:
    up to as many texts of a public corpus, None without one.
    """

    student: str
    zero_shot: Accuracy
    guided: Accuracy
    soft: Accuracy | None = None
    public: Accuracy | None = None

    @property
    def floor(self) -> Accuracy:
        """The better one of the two classifiers without private data."""
        return max(self.zero_shot, self.soft or self.zero_shot, key=lambda accuracy: accuracy.right)


@dataclass(frozen=True, slots=True)
class Measured:
    """An accuracy with its name (a key of ACCURACIES), title and remark."""

    name: str
    title: str
    accuracy: Accuracy
    remark: str = ""

    def __str__(self) -> str:
        if not self.remark:
            return f"{self.title} {self.accuracy}"
        return f"{self.title} {self.accuracy}, {self.remark}"


@dataclass(frozen=True, slots=True)
class Gain:
    """Gain from private records: accuracy above the best `floor`, in points, with a 95 % interval.

    The interval is that of a difference of two proportions (MOVER of the two exact intervals, Newcombe 1998, method
    10). It treats the two classifiers as independent. On the same test rows they agree on many, so the interval is
    wider than necessary.
    """

    points: float
    low: float
    high: float
    floor: Measured

    @property
    def verdict(self) -> str:
        """The meaning of the interval."""
        if self.low > 0:
            return "a measured gain"
        if self.high < 0:
            return "the texts are below the floor"
        if self.points < 0:
            return "the texts are below the floor, but 0 is within the interval"
        return "no measured gain, 0 is within the interval"


def gain_over(run: Accuracy, floor: Measured) -> Gain:
    """Return how much an accuracy exceeds a floor, with its interval."""
    base = floor.accuracy
    low, high = run.interval
    base_low, base_high = base.interval
    difference = run.value - base.value
    below = math.hypot(run.value - low, base_high - base.value)
    above = math.hypot(high - run.value, base.value - base_low)
    return Gain(100 * difference, 100 * (difference - below), 100 * (difference + above), floor)


@dataclass(frozen=True, slots=True)
class Usefulness:
    """The accuracy of a run compared with its references.

    `run`: a new classifier, trained on the exported texts alone, or the run's classifier of private rows. `adapted`:
    the run's classifier, if it also `reads` a release or public rows. `release`: the nearest class mean of a released
    density. `chance`: the share of the largest class of the test rows. `unmeasured`: why there is no baseline, empty
    with one. `student`: the kind of the run's classifier.
    """

    run: Accuracy
    chance: float
    student: str
    baseline: Baseline | None = None
    unmeasured: str = ""
    adapted: Accuracy | None = None
    release: Accuracy | None = None
    reads: str = "the noisy release"

    @property
    def measured(self) -> tuple[Measured, ...]:
        """All accuracies, the run's first."""
        baseline = self.baseline
        accuracies: dict[str, tuple[Accuracy | None, str]] = {
            "accuracy": (self.run, ""),
            "adapted_accuracy": (self.adapted, ""),
            "release_accuracy": (self.release, ""),
        }
        if baseline is not None:
            remarks = []
            if baseline.student != self.student:
                remarks.append(f"{baseline.student} classifier")
            accuracies["public_accuracy"] = baseline.public, "".join(remarks)
            # With the same classifier and as many texts, the arm would repeat the run's accuracy.
            if remarks or baseline.guided.texts != self.run.texts:
                accuracies["guided_accuracy"] = baseline.guided, "".join(remarks)
            if self.student != NEXT_WORD and baseline.floor is baseline.soft:
                remarks.append("soft labels")
            elif self.student != NEXT_WORD:
                remarks.append("labels as written")
            accuracies["zero_shot_accuracy"] = baseline.floor, ", ".join(remarks)
        titles = dict(ACCURACIES)
        if self.run.texts is None:
            titles["accuracy"] = ON_ROWS
        return tuple(
            Measured(name, self.of_student(titles[name].format(self.reads)), accuracy, remark)
            for name, (accuracy, remark) in accuracies.items()
            if accuracy is not None
        )

    def of_student(self, text: str) -> str:
        """Return a text about a classifier in the words of this run's kind of student."""
        if self.student != NEXT_WORD:
            return text
        return text.replace("classifier", "next-word model")

    @property
    def unit(self) -> str:
        """The things that accuracies count."""
        if self.student == NEXT_WORD:
            return "words of the test rows"
        return "test rows"

    @property
    def above_chance(self) -> bool:
        """True if the whole interval of the accuracy is above chance."""
        return self.run.interval[0] > self.chance

    @property
    def above_zero_shot(self) -> bool:
        """True if equally many texts of the run train better than the better baseline, or if unmeasured.

        Of next-word models the loss decides, which differs for every word.
        """
        if self.baseline is None:
            return True
        guided = self.baseline.guided
        floor = self.baseline.floor
        if guided.loss is not None and floor.loss is not None:
            return guided.loss < floor.loss
        return guided.right > floor.right

    @property
    def gain(self) -> Gain | None:
        """Accuracy of the exported texts above the best floor; None without a floor, or for next-word models."""
        # An accuracy of next words depends on the words of the texts; their losses are compared instead.
        floors = [measured for measured in self.measured if measured.name in FLOORS]
        if not floors or self.run.texts is None or self.run.loss is not None:
            return None
        return gain_over(self.run, max(floors, key=lambda floor: floor.accuracy.value))

    @property
    def line(self) -> str:
        """All accuracies and chance in one line."""
        return " · ".join([*map(str, self.measured), f"chance {_percent(self.chance)}"])

    @property
    def basis(self) -> str:
        """The test rows, the interval, and why there is no baseline."""
        basis = f"{self.run.rows:,} {self.unit}, {INTERVAL} intervals"
        if self.unmeasured:
            basis += f"; no baseline without private data: {self.unmeasured}"
        return basis

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the result may be useless; empty for a useful one."""
        warnings = []
        if not self.above_chance:
            warnings.append(
                f"student accuracy {self.run} is not above chance ({_percent(self.chance)}) on {self.run.rows:,} "
                f"{self.unit}. Check the texts before using them."
            )
        if self.baseline is not None and not self.above_zero_shot:
            warnings.append(
                f"no gain from the private data is measured: the same models without it reach "
                f"{self.baseline.floor}, this run with as many texts {self.baseline.guided}, "
                f"on {self.run.rows:,} {self.unit}."
            )
        return tuple(warnings)

    def metrics(self) -> dict[str, float]:
        """Return the numbers under the names for experiment tracking."""
        metrics = {"baseline/chance": self.chance}
        for measured in self.measured:
            name = f"student/{measured.name}"
            if measured.name in BASELINES:
                name = f"baseline/{measured.name}"
            low, high = measured.accuracy.interval
            metrics |= {name: measured.accuracy.value, f"{name}_low": low, f"{name}_high": high}
            if measured.accuracy.loss is not None:
                metrics[f"{name}_loss"] = measured.accuracy.loss
        if self.baseline is not None:
            metrics["baseline/texts"] = float(self.baseline.zero_shot.texts or 0)
        return metrics

    def value(self, name: str) -> float | None:
        """Return an accuracy by its name in ACCURACIES; None where it was not measured."""
        return next(
            (measured.accuracy.value for measured in self.measured if measured.name == name), None
        )

    def summary(self) -> dict[str, Any]:
        """Return the values for `--json`."""
        baseline = self.baseline
        above_zero_shot = None
        # All keys exist in every summary: readers need not know which of them a run has.
        arms: dict[str, object] = dict.fromkeys(
            ("zero_shot", "zero_shot_soft", "guided", "public", "baseline_student")
        )
        if baseline is not None:
            above_zero_shot = self.above_zero_shot
            arms = {
                "zero_shot": _values(baseline.zero_shot),
                "zero_shot_soft": _values(baseline.soft),
                "guided": _values(baseline.guided),
                "public": _values(baseline.public),
                "baseline_student": baseline.student,
            }
        return {
            "test_rows": self.run.rows,
            "chance": self.chance,
            "accuracy": _values(self.run),
            "adapted": _values(self.adapted),
            "release": _values(self.release),
            "interval": INTERVAL,
            **arms,
            "unmeasured": self.unmeasured,
            "gain": self.gain and _gain(self.gain),
            "above_chance": self.above_chance,
            "above_zero_shot": above_zero_shot,
            "line": self.line,
            "lines": [str(measured) for measured in self.measured],
            "basis": self.basis,
            "warnings": list(self.warnings),
        }


def _gain(gain: Gain) -> dict[str, object]:
    numbers = {"points": gain.points, "low": gain.low, "high": gain.high}
    return numbers | {
        "floor": gain.floor.name,
        "floor_line": str(gain.floor),
        "verdict": gain.verdict,
    }


def _values(accuracy: Accuracy | None) -> dict[str, object] | None:
    if accuracy is None:
        return None
    low, high = accuracy.interval
    values: dict[str, object] = {"value": accuracy.value, "low": low, "high": high}
    values["texts"] = accuracy.texts
    if accuracy.loss is not None:
        values["loss"] = accuracy.loss
    return values


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
