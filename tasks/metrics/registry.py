"""The metrics of a run, in one list that evaluation, tracking, summary, report and comparison loop over.

Other packages add a metric with an entry point in the group `wasp.metrics`, whose value is the path of a `Metric`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import entry_points
from typing import Literal

from connectors.interfaces.embedding import Matrix
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import NO_CLASS
from tasks.metrics.metrics import NEIGHBOURS, fid, mmd, precision_recall, thin
from tasks.metrics.usefulness import ACCURACIES

GROUP = "wasp.metrics"
FID_OF_RECORDS = "fid_records_not_private"
TEACHERS = "teachers_accuracy_not_private"
NOISY_TEACHERS = "noisy_teachers_accuracy_not_private"
COVERED = 5000
"""Maximum rows of each kind for MMD, precision and recall, which compare every pair (Aug-PE uses the same number)."""


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Rows with their embeddings, shape (n, d); without `labels` where the rows have none."""

    texts: Sequence[str]
    labels: Sequence[str]
    vectors: Matrix


# Without slots, which leave `cached_property` no place for its value.
@dataclass(frozen=True)
class MetricInput:
    """All texts of a run so far, and the public or test rows to compare them with.

    `real` has no rows for a metric that needs none. Private rows are never part of it. `first`: number of texts of the
    first iteration, None if unknown.
    """

    texts: LabelledRows
    real: LabelledRows
    seed: int
    first: int | None = None

    def texts_of(self, most: int | None) -> Matrix:
        """Return the vectors of at most `most` random texts."""
        if most is None:
            return self.texts.vectors
        return thin(self.texts.vectors, most, self.seed)

    @cached_property
    def fid(self) -> float:
        """FID of all texts."""
        return fid(self.texts.vectors, self.real.vectors)

    @property
    def fid_equal(self) -> float:
        """FID of as many texts as the first iteration wrote."""
        # In the first iteration these are all texts.
        if self.first is None or len(self.texts.vectors) <= self.first:
            return self.fid
        return fid(self.texts_of(self.first), self.real.vectors)

    @cached_property
    def coverage(self) -> tuple[float | None, float | None]:
        """Precision and recall of the texts; None if there are too few rows."""
        ours = self.texts_of(COVERED)
        real = thin(self.real.vectors, COVERED, self.seed)
        if min(len(ours), len(real)) <= NEIGHBOURS:
            return None, None
        return precision_recall(ours, real)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number that is measured in each iteration, on the student, or both.

    `name`: key in JSON, MLflow and comparisons. `title`: heading of its table in a comparison. `label`: head of its
    column in the report, empty without a column. `note`: explanation below the column, a sentence without full stop.
    `percent`: the value is a share. `higher_is_better`: None where neither is. `measure`: computes the value of an
    iteration, None where another step does. `needs`: its real rows, those of `evaluation.fid_reference`, the test rows
    or none; without them it is not measured. `summary`: value of the run, the last or the mean of its iterations, the
    student's or the discriminator's; empty without one, then it cannot be compared. `unnoised`: computed on the drawn
    rows of a public benchmark without noise, as name and title say. `version`: raise it when `measure` changes.
    """

    name: str
    title: str
    label: str = ""
    note: str = ""
    percent: bool = False
    higher_is_better: bool | None = None
    measure: Callable[[MetricInput], float | None] | None = None
    needs: Literal["", "reference", "test"] = ""
    summary: Literal["", "last", "mean", "student", "discriminator"] = "last"
    unnoised: bool = False
    version: int = 1

    def heading(self, reference: str = "") -> str:
        """Return the title with its direction where lower is better, and the reference rows if it needs some."""
        title = self.title
        if reference and self.needs == "reference":
            title += f", against {reference} rows"
        # None: neither direction is better.
        if self.higher_is_better is False:
            title += " (lower is better)"
        return title


def _probe(rows: MetricInput) -> float | None:
    if set(rows.real.labels) == {NO_CLASS}:
        return None
    # Imported here: it needs scikit-learn, and most readers of this list need its names alone.
    from tasks.students.heads import probe_accuracy

    texts = rows.texts
    real = rows.real
    return probe_accuracy(texts.vectors, list(texts.labels), real.vectors, list(real.labels))


# Tables and columns have the order of this list.
METRICS = (
    Metric(
        name="fid",
        title="FID",
        label="FID",
        higher_is_better=False,
        measure=lambda rows: rows.fid,
        needs="reference",
    ),
    Metric(
        name="fid_equal",
        title="FID of as many texts as the first iteration wrote",
        label="FID, equal size",
        note="FID, equal size: of as many random texts as the first iteration wrote; FID falls as texts become more",
        higher_is_better=False,
        measure=lambda rows: rows.fid_equal,
        needs="reference",
    ),
    Metric(
        name="mmd",
        title="MMD squared x 1000",
        label="MMD",
        note="MMD: squared, x 1000; 0 on average for the distribution of those rows, at any number of texts",
        higher_is_better=False,
        measure=lambda rows: mmd(
            rows.texts_of(COVERED), thin(rows.real.vectors, COVERED, rows.seed)
        ),
        needs="reference",
    ),
    Metric(
        name="text_precision",
        title="Precision: share of the texts that are close to real rows",
        label="precision",
        note="Precision: share of texts close to those rows",
        percent=True,
        higher_is_better=True,
        measure=lambda rows: rows.coverage[0],
        needs="reference",
    ),
    Metric(
        name="text_recall",
        title="Recall: share of the real rows that are close to texts",
        label="recall",
        note="Recall: share of rows close to the texts (three nearest neighbours)",
        percent=True,
        higher_is_better=True,
        measure=lambda rows: rows.coverage[1],
        needs="reference",
    ),
    Metric(
        name="probe_accuracy",
        title="Accuracy of a linear probe, between iterations",
        label="probe accuracy",
        note="Probe accuracy: of a linear model on the texts so far, not of the student",
        percent=True,
        higher_is_better=True,
        measure=_probe,
        needs="test",
    ),
    *(
        Metric(
            name=name,
            title="Accuracy of the student"
            if name == "accuracy"
            else f"Accuracy: {title.format('the release')}",
            percent=True,
            higher_is_better=True,
            summary="student",
        )
        for name, title in ACCURACIES.items()
    ),
    Metric(
        name="macro_f1", title="Macro F1 of the student", higher_is_better=True, summary="student"
    ),
    *(
        Metric(
            name=f"weighted_{name}",
            title=f"{title} of the student, weighted by class size",
            higher_is_better=True,
            summary="student",
        )
        for name, title in (("precision", "Precision"), ("recall", "Recall"), ("f1", "F1"))
    ),
    Metric(
        name="discriminator_accuracy",
        title="Accuracy of the discriminator: test rows against generated texts (chance 0.5)",
        percent=True,
        higher_is_better=True,
        summary="discriminator",
    ),
    *(
        Metric(
            name=name,
            title=f"{title}, NOT PRIVATE",
            label=label,
            percent=higher,
            higher_is_better=higher,
            unnoised=True,
        )
        for name, title, label, higher in (
            (FID_OF_RECORDS, "FID against the drawn records", "FID, records (NOT PRIVATE)", False),
            (TEACHERS, "Accuracy of the teachers (chance 0.5)", "", True),
            (NOISY_TEACHERS, "Accuracy of the teachers with noise (chance 0.5)", "", True),
        )
    ),
    Metric(
        name="next_word_loss",
        title="Loss per word of a next-word model of the texts, in nats, for texts without classes",
        higher_is_better=False,
        summary="student",
    ),
)
FIRST_METRICS = frozenset(
    {"fid", "fid_equal", "mmd", "text_precision", "text_recall", "probe_accuracy"}
)
"""Metrics with a field of their own in `IterationRecord`. The version of the step "measure" identifies them; its keys
name the others.
"""


def all_metrics() -> tuple[Metric, ...]:
    """Return all metrics, of this repository and of installed packages; ConfigError for a name that exists."""
    metrics = (*METRICS, *_installed())
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1 or not re.fullmatch("[a-z][a-z0-9_]*", name):
            raise ConfigError(
                f"{GROUP}: the metric name '{name}' exists already or is not in snake_case. Rename it."
            )
    return metrics


@cache
def _installed() -> tuple[Metric, ...]:
    # By name: packages are found in the order of their folders, which differs between machines.
    return tuple(
        point.load() for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)
    )


def compared_names() -> tuple[str, ...]:
    """Return the names of the metrics that a comparison can show: those with a value for the whole run."""
    return tuple(metric.name for metric in all_metrics() if metric.summary)


def find_metric(name: str) -> Metric:
    """Return a metric; ConfigError for an unknown name."""
    for metric in all_metrics():
        if metric.name == name:
            return metric
    raise ConfigError(
        f"metrics: there is no metric '{name}'. Choose one of: {', '.join(compared_names())}."
    )


def added_versions() -> dict[str, int]:
    """Return the versions of the metrics that the step "measure" computes and its version does not identify."""
    return {
        m.name: m.version
        for m in all_metrics()
        if m.measure is not None and m.name not in FIRST_METRICS
    }
