"""The facts of one finished iteration.

One value serves the terminal, Prefect, MLflow and the report.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connectors.interfaces.models import Usage
from connectors.interfaces.traffic import Traffic
from tasks.metrics.registry import FIRST_METRICS, all_metrics
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable, Weights
from tasks.writing.endings import CUT_COLUMNS, count_cut

Sum = TypeVar("Sum", int, Usage, Counter[str], Traffic)
EARLIER_PROBE = "accuracy"
"""Name of `probe_accuracy` in files of earlier versions."""


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """One iteration.

    `epsilon` is None where no number describes the loss (no noise); counts are by PLM. `weights` are for the next
    iteration. `fid` and `probe_accuracy` are None where they were not measured. `fid_equal`: FID of as many texts as
    the first iteration wrote; `mmd`: squared, x 1000. `text_precision`: the share of texts that are among real rows;
    `text_recall`: the share of real rows that are among the texts. `guided`: the measured metrics without a field of
    their own. `endpoints`: the calls of each language model's endpoint, by "model at host". `usable`: answers that
    became texts; `cut` of them end in the middle of a sentence, `several` are the first of several texts of an answer.
    `phrases`: phrases that prompts requested, `phrases_used` of which occur in their texts.
    """

    iteration: int
    new: Mapping[str, int]
    total: int
    fid: float | None
    fid_reference: str
    probe_accuracy: float | None
    shortfall: Mapping[str, int]
    failures: Mapping[str, Mapping[str, int]]
    down: Mapping[str, str]
    usage: Mapping[str, Usage]
    weights: Weights
    epsilon: float | None
    releases: int
    fid_equal: float | None = None
    mmd: float | None = None
    text_precision: float | None = None
    text_recall: float | None = None
    guided: Mapping[str, float | None] = field(default_factory=dict)
    endpoints: Mapping[str, Traffic] = field(default_factory=dict)
    usable: Mapping[str, int] = field(default_factory=dict)
    cut: Mapping[str, int] = field(default_factory=dict)
    several: Mapping[str, int] = field(default_factory=dict)
    phrases: Mapping[str, int] = field(default_factory=dict)
    phrases_used: Mapping[str, int] = field(default_factory=dict)

    def value(self, metric: str) -> float | None:
        """Return a metric of this iteration; None where it was not measured."""
        if metric not in FIRST_METRICS:
            return self.guided.get(metric)
        value: float | None = getattr(self, metric)
        return value

    def metrics(self) -> dict[str, float | None]:
        """Return the numbers that may be tracked, by "group/name".

        Costs and failures are tracked only where they are not 0.
        """
        numbers: dict[str, float | None] = {
            "privacy/epsilon_spent": self.epsilon,
            "privacy/releases": float(self.releases),
            "texts/samples": float(self.total),
        }
        numbers |= {
            f"texts/{metric.name}": self.value(metric.name)
            for metric in all_metrics()
            if metric.name in FIRST_METRICS or metric.name in self.guided
        }
        numbers |= {f"weight/{plm}": weight for plm, weight in self.weights.items()}
        numbers |= {f"new/{plm}": float(count) for plm, count in self.new.items()}
        rare = {f"dollars/{plm}": usage.dollars for plm, usage in self.usage.items()}
        rare |= {
            f"dollars_estimated/{plm}": usage.estimated_dollars for plm, usage in self.usage.items()
        }
        rare |= {f"down/{plm}": 1.0 for plm in self.down}
        # By model, not by host: two runs with other addresses can be compared.
        for plm, calls in _added(
            [(name.partition(" at ")[0], c) for name, c in self.endpoints.items()], Traffic()
        ).items():
            rare |= {
                f"calls_{outcome}/{plm}": float(count) for outcome, count in calls.counts.items()
            }
            rare |= {f"calls_from_others/{plm}": float(calls.from_others)}
            rare |= {f"calls_short_prompts/{plm}": float(calls.short_prompts)}
            rare |= {
                f"seconds_p{share}/{plm}": calls.seconds(share / 100) or 0.0 for share in (50, 95)
            }
        rare |= {f"shortfall/{plm}": float(count) for plm, count in self.shortfall.items()}
        rare |= {
            f"left_out_{reason}/{plm}": float(count)
            for plm, reasons in self.failures.items()
            for reason, count in reasons.items()
        }
        rare |= {f"cut/{plm}": float(count) for plm, count in self.cut.items()}
        rare |= {f"several/{plm}": float(count) for plm, count in self.several.items()}
        # Also a share of 0, which no other number shows.
        numbers |= {
            f"phrases_used/{plm}": self.phrases_used.get(plm, 0) / count
            for plm, count in self.phrases.items()
        }
        return numbers | {name: value for name, value in rare.items() if value}


def record_iteration(
    tools: Tools,
    iteration: int,
    written: Sequence[TextTable],
    measured: Mapping[str, Any],
    weights: Weights,
    privacy: tuple[float | None, int],
) -> IterationRecord:
    """Return the facts of an iteration; `weights`: of the next one, `privacy`: epsilon and releases so far."""
    # Texts that look ahead are counted among the answers, but never join the data set.
    new = [texts for texts in written if texts.iteration == iteration]
    about = [(texts.plm, tools.artifacts.info(texts.samples)) for texts in new]
    left_out = [(plm, Counter(info["failures"])) for plm, info in about]
    cut = [
        counted
        for texts in new
        for counted in count_cut(tools.artifacts.read_table(texts.samples, CUT_COLUMNS)).items()
    ]
    traffic = [
        (f"{plm} at {host}", Traffic(**counts))
        for plm, info in about
        for host, counts in info.get("traffic", {}).items()
    ]
    probe = "probe_accuracy"
    # Measures of earlier versions are read when their run is reported again.
    if probe not in measured:
        probe = EARLIER_PROBE
    return IterationRecord(
        iteration=iteration,
        new=_added([(texts.plm, texts.samples.rows) for texts in new if not texts.looks_ahead], 0),
        total=measured["rows"],
        fid_reference=measured["fid_reference"],
        probe_accuracy=measured[probe],
        shortfall=_added([(plm, sum(info["shortfall"].values())) for plm, info in about], 0),
        failures={plm: dict(reasons) for plm, reasons in _added(left_out, Counter()).items()},
        down={texts.plm: texts.down for texts in new if texts.down},
        usage=_added([(plm, Usage(**info["usage"])) for plm, info in about], Usage()),
        weights=dict(weights),
        epsilon=privacy[0],
        releases=privacy[1],
        endpoints=_added(traffic, Traffic()),
        usable=_added([(texts.plm, texts.samples.rows) for texts in new], 0),
        cut=_added(cut, 0),
        several=_added([(plm, info.get("several", 0)) for plm, info in about], 0),
        phrases=_added([(plm, info["phrases"]) for plm, info in about if "phrases" in info], 0),
        phrases_used=_added(
            [(plm, info["phrases_used"]) for plm, info in about if "phrases" in info], 0
        ),
        guided={
            metric.name: measured[metric.name]
            for metric in all_metrics()
            if metric.name not in FIRST_METRICS
            and metric.name in measured
            and metric.summary != "student"
        },
        **{name: measured.get(name) for name in FIRST_METRICS - {"probe_accuracy"}},
    )


def _added(parts: Sequence[tuple[str, Sum]], nothing: Sum) -> dict[str, Sum]:
    """Add up values of the same PLM.

    A PLM may write new texts and vary others in one round.
    """
    sums: dict[str, Sum] = {}
    for plm, part in parts:
        sums[plm] = sums.get(plm, nothing) + part
    return sums


def table(facts: IterationRecord) -> list[dict[str, object]]:
    """Return one row per PLM, for a table."""
    rows: list[dict[str, object]] = []
    for plm, count in facts.new.items():
        weight = facts.weights.get(plm)
        if weight is not None:
            weight = round(weight, 3)
        state = "wrote"
        if plm in facts.down:
            state = f"DOWN: {facts.down[plm]}"
        left_out = [f"{reason} {n}" for reason, n in facts.failures.get(plm, {}).items()]
        rows.append(
            {
                "PLM": plm,
                "new samples": count,
                "weight for the next iteration": weight,
                "missing": facts.shortfall.get(plm, 0),
                "cut": facts.cut.get(plm, 0),
                "first of several": facts.several.get(plm, 0),
                "state": state,
                "left out": ", ".join(left_out) or "none",
            }
        )
    return rows


def line(facts: IterationRecord, dollars: float) -> str:
    """Describe the iteration in one line: texts, FID, probe, epsilon, dollars."""
    parts = [f"{facts.total} texts"]
    if facts.fid is not None:
        parts.append(f"FID {facts.fid:.3f}")
    if facts.probe_accuracy is not None:
        parts.append(f"probe {facts.probe_accuracy:.1%}")
    if facts.epsilon is None:
        parts.append("NOT PRIVATE")
    else:
        parts.append(f"epsilon {facts.epsilon:.3g}")
    if dollars:
        parts.append(f"${dollars:.4f}")
    if facts.down:
        parts.append(f"DOWN: {', '.join(facts.down)}")
    return " | ".join(parts)
