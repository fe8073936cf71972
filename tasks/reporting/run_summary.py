"""Summary of a finished run, stored as summary.json and read by other commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from tasks.metrics.iteration_record import IterationRecord
from tasks.metrics.metrics import weighted_scores
from tasks.metrics.registry import FIRST_METRICS, GROUP, Metric, all_metrics
from tasks.metrics.usefulness import ACCURACIES
from tasks.reporting.run_record import RunRecord

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RESERVED = {entry.name for entry in fields(IterationRecord)} | {"rows", "samples", "metrics"}
"""Keys of an iteration in measures.json, summary.json and MLflow that are no metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The results of a run; summaries of earlier versions lack some of them and have the default.

    `epsilon_spent` is the privacy loss of the run's output, including reused releases of earlier runs; `epsilon_added`
    is the loss that this run added to the ledger. Both are None without noise. `metrics`: values of the metrics for the
    whole run by name, None where not measured. `is_incomplete`: a degraded run that lacks texts, models or steps, which
    another execution may add. `fid_reference`: the rows of FID. `iterations`: one object per
    iteration, with its metrics by name. `protects`: the unit of epsilon, record or person. `stubs`: models that are
    embedded stubs. `removed`: the files that `wasp clean` removed since.
    """

    run_id: str
    flow: str = ""
    task: str = ""
    dataset: str | None = None
    state: str = "done"
    degraded: bool = False
    is_incomplete: bool = False
    problems: list[str] = field(default_factory=list)
    dollars: float = 0.0
    dollars_estimated: float = 0.0
    epsilon_spent: float | None = None
    epsilon_added: float | None = None
    not_private: bool = False
    delta: float = 0.0
    protects: str = ""
    stubs: Sequence[str] = ()
    releases: int = 0
    releases_charged: int | None = None
    n_synthetic: int = 0
    metrics: dict[str, float | None] = field(default_factory=dict)
    classes: Sequence[str] | None = None
    per_class: dict[str, Any] | None = None
    confusion: Sequence[Sequence[int]] | None = None
    usefulness: dict[str, Any] | None = None
    fid_reference: str = ""
    mlflow_run_id: str | None = None
    mlflow: str = ""
    tracking_problem: str | None = None
    prefect_run_id: str | None = None
    folder: str = ""
    report: str = ""
    seconds: float = 0.0
    iterations: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    parties: dict[str, Any] | None = None
    removed: str | None = None

    @property
    def usefulness_warnings(self) -> list[str]:
        """Why the result may be useless; empty for a useful run or one of an earlier version."""
        return list((self.usefulness or {}).get("warnings", ()))

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values; each metric has a key of its own."""
        # Metrics are keys beside the fields: a package may add one, and comparisons read all by name.
        values = asdict(self)
        metrics: dict[str, float | None] = values.pop("metrics")
        removed = values.pop("removed")
        return values | metrics | ({"removed": removed} if removed is not None else {})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunSummary:
        """Return the summary from its JSON; numbers under other keys are metrics, also of packages since removed."""
        own = {name: value for name, value in values.items() if name in _names()}
        others = {name: value for name, value in values.items() if name not in own}
        if others.pop("fid_not_private", False) or others.pop("unnoised", []):
            # An earlier version computed it on private rows without noise.
            others.pop("fid", None)
        own["iterations"] = [
            row | {"fid": None} if row.get("not_private") else row
            for row in own.get("iterations", ())
        ]
        metrics = {
            name: value
            for name, value in others.items()
            if value is None or isinstance(value, int | float)
        }
        weighted: dict[str, float | None] = dict(weighted_scores(own.get("per_class") or {}))
        return cls(**own, metrics=weighted | metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Surroundings of a run: its dataset, its cost, and where it is stored and shown."""

    dataset: str
    folder: str
    report: str
    prefect_run_id: str | None
    dollars: float
    dollars_estimated: float


def summary_of(record: RunRecord, context: RunContext) -> RunSummary:
    """Return the summary of a finished run; its MLflow run is added once the results are sent there."""
    useful = record.usefulness
    fid_reference = record.iterations[-1].fid_reference if record.iterations else ""
    own: Json = {
        "degraded": bool(record.degraded),
        "problems": list(record.degraded),
        "metrics": metrics_of(record),
        "usefulness": useful.summary() if useful else None,
        "fid_reference": fid_reference,
        "iterations": [summary_line(facts) for facts in record.iterations],
        "warnings": [*record.warnings, *record.usefulness_warnings],
    }
    values = shared_values(record, RunSummary) | shared_values(context, RunSummary)
    if record.scores:
        values |= shared_values(record.scores, RunSummary)
    return RunSummary(**(values | own))


def metrics_of(record: RunRecord) -> dict[str, float | None]:
    """Return the metrics of the whole run by name; None where not measured."""
    return {metric.name: _of_run(metric, record) for metric in all_metrics() if metric.summary}


def _of_run(metric: Metric, record: RunRecord) -> float | None:
    """Return the value of a metric for the whole run, as its `summary` says."""
    # The accuracies of a run have baselines and intervals, so one place defines them.
    if metric.name in ACCURACIES:
        return record.usefulness.value(metric.name) if record.usefulness else None
    if metric.summary == "student":
        return record.scores.value(metric.name) if record.scores else None
    if metric.summary == "discriminator":
        return record.discriminator.student.value if record.discriminator else None
    values = [facts.value(metric.name) for facts in record.iterations]
    if metric.summary == "last":
        return values[-1] if values else None
    measured = [value for value in values if value is not None]
    return sum(measured) / len(measured) if measured else None


def summary_line(facts: IterationRecord) -> dict[str, object]:
    """Return an iteration in the summary of its run."""
    measured = {
        metric.name: facts.value(metric.name)
        for metric in all_metrics()
        if metric.summary and (metric.name in FIRST_METRICS or metric.name in facts.guided)
    }
    return {
        "iteration": facts.iteration,
        "new": dict(facts.new),
        "weights": dict(facts.weights),
        **measured,
        "epsilon": facts.epsilon,
    }


def shared_values(source: object, target: type[DataclassInstance]) -> dict[str, Any]:
    """Return the values of an object for the fields of `target` that it has under the same name."""
    return {
        entry.name: getattr(source, entry.name)
        for entry in fields(target)
        if hasattr(source, entry.name)
    }


def check_metric_names() -> None:
    """Raise ConfigError if an added metric has the name of another value of a run or an iteration."""
    for metric in all_metrics():
        if metric.name not in FIRST_METRICS and metric.name in _names() | RESERVED:
            raise ConfigError(
                f"{GROUP}: the metric name '{metric.name}' is the key of another value. Rename it."
            )


def _names() -> set[str]:
    return {entry.name for entry in fields(RunSummary)} - {"metrics"}
