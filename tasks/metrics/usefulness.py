"""Usefulness of a run: its accuracy compared with chance and a baseline.

The baseline uses texts without private data. A run that learned nothing finishes like any other, hence its result must
state this wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CONFIDENCE = 0.95
INTERVAL = "95 % Clopper-Pearson"
"""The exact binomial interval over test rows, valid for every accuracy and every number of rows."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A classifier's correct predictions on `rows` test rows.

    `texts`: the number of training texts, None for a classifier trained on rows.
    """

    right: int
    rows: int
    texts: int | None = None

    @property
    def value(self) -> float:
        """The share of correct predictions."""
        return self.right / self.rows

    @property
    def interval(self) -> tuple[float, float]:
        """The exact binomial interval (Clopper and Pearson 1934)."""
        from scipy.special import betaincinv

        tail, wrong = (1 - CONFIDENCE) / 2, self.rows - self.right
        low = float(betaincinv(self.right, wrong + 1, tail)) if self.right else 0.0
        high = float(betaincinv(self.right + 1, wrong, 1 - tail)) if wrong else 1.0
        return low, high

    def __str__(self) -> str:
        low, high = self.interval
        learned = "" if self.texts is None else f", {self.texts:,} texts"
        return f"{_percent(self.value)} ({100 * low:.0f}-{100 * high:.0f}{learned})"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Two classifiers of the kind `student` that were trained on equally many texts.

    `zero_shot`: texts of the same models before any release; `guided`: texts of the run's result.
    """

    student: str
    zero_shot: Accuracy
    guided: Accuracy


@dataclass(frozen=True, slots=True)
class Usefulness:
    """The accuracy of a run compared with its references.

    `chance`: the share of the largest class of the test rows. `unmeasured`: why there is no baseline, empty with one.
    `student`: the kind of the run's classifier.
    """

    run: Accuracy
    chance: float
    student: str
    baseline: Baseline | None = None
    unmeasured: str = ""

    @property
    def above_chance(self) -> bool:
        """True if the whole interval of the accuracy is above chance."""
        return self.run.interval[0] > self.chance

    @property
    def above_zero_shot(self) -> bool:
        """True if equally many texts of the run train better, or if unmeasured."""
        return self.baseline is None or self.baseline.guided.right > self.baseline.zero_shot.right

    @property
    def line(self) -> str:
        """Chance, baseline and run in one line."""
        parts = [f"chance {_percent(self.chance)}"]
        if self.baseline is not None:
            probe = "" if self.baseline.student == self.student else f", {self.baseline.student} student on both"
            parts.append(f"same models without private data {self.baseline.zero_shot}{probe}")
            if probe or self.baseline.guided.texts != self.run.texts:
                parts.append(f"this run with as many texts {self.baseline.guided}")
        return " · ".join([*parts, f"this run {self.run}"])

    @property
    def basis(self) -> str:
        """The test rows, the interval, and why there is no baseline."""
        missing = f"; no baseline without private data: {self.unmeasured}" if self.unmeasured else ""
        return f"{self.run.rows:,} test rows, {INTERVAL} intervals{missing}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the result may be useless; empty for a useful one."""
        warnings = []
        if not self.above_chance:
            warnings.append(
                f"student accuracy {self.run} is not above chance ({_percent(self.chance)}) on {self.run.rows:,} test "
                "rows. Check the texts before using them."
            )
        if self.baseline is not None and not self.above_zero_shot:
            warnings.append(
                f"no gain from the private data is measured: the same models without it reach "
                f"{self.baseline.zero_shot}, this run with as many texts {self.baseline.guided}, "
                f"on {self.run.rows:,} test rows."
            )
        return tuple(warnings)

    def metrics(self) -> dict[str, float]:
        """Return the numbers under the names for experiment tracking."""
        low, high = self.run.interval
        metrics = {"student/accuracy_low": low, "student/accuracy_high": high, "baseline/chance": self.chance}
        if self.baseline is not None:
            for name, accuracy in (("zero_shot", self.baseline.zero_shot), ("guided", self.baseline.guided)):
                low, high = accuracy.interval
                metrics |= {f"baseline/{name}_accuracy": accuracy.value, f"baseline/{name}_low": low}
                metrics |= {f"baseline/{name}_high": high}
            metrics["baseline/texts"] = float(self.baseline.zero_shot.texts or 0)
        return metrics

    def summary(self) -> dict[str, Any]:
        """Return the values for `--json`."""
        baseline = self.baseline
        return {
            "test_rows": self.run.rows,
            "chance": self.chance,
            "accuracy": _values(self.run),
            "interval": INTERVAL,
            "zero_shot": _values(baseline.zero_shot) if baseline else None,
            "guided": _values(baseline.guided) if baseline else None,
            "baseline_student": baseline.student if baseline else None,
            "unmeasured": self.unmeasured,
            "above_chance": self.above_chance,
            "above_zero_shot": self.above_zero_shot if baseline else None,
            "line": self.line,
            "basis": self.basis,
            "warnings": list(self.warnings),
        }


def usefulness_of(values: Mapping[str, Any] | None) -> Usefulness | None:
    """Return the value from the result of `dataclasses.asdict`; None for None."""
    if values is None:
        return None
    plain, baseline = dict(values), values["baseline"]
    plain["run"] = Accuracy(**values["run"])
    if baseline is not None:
        arms = {name: Accuracy(**baseline[name]) for name in ("zero_shot", "guided")}
        plain["baseline"] = Baseline(baseline["student"], **arms)
    return Usefulness(**plain)


def _values(accuracy: Accuracy) -> dict[str, float | int | None]:
    low, high = accuracy.interval
    return {"value": accuracy.value, "low": low, "high": high, "texts": accuracy.texts}


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
