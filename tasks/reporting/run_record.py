"""The record of a run: its plan and its results, which report, card, ledger page and summary show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from connectors.interfaces.ledger import Charge
from connectors.interfaces.models import Usage
from connectors.interfaces.traffic import Traffic
from tasks.evaluation.map_points import MapPoints
from tasks.metrics.answer_counts import AnswerCounts
from tasks.metrics.iteration_record import EARLIER_PROBE, IterationRecord
from tasks.metrics.metrics import weighted_scores
from tasks.metrics.usefulness import DiscriminatorTest, Usefulness
from tasks.private.release import Released, UnnoisedUse

if TYPE_CHECKING:
    from pydantic import TypeAdapter

STUBS = "Written by stubs ({}): not for use"
"""Text of the mark of texts whose models only test the pipeline."""


@dataclass(frozen=True, slots=True)
class Section:
    """A further section of a report: a title, a paragraph, and a table (heads, rows of cells)."""

    title: str
    text: str = ""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class ClassShare:
    """Share of one class: tutor (noisy), result, and test rows or None."""

    name: str
    tutor: float
    texts: float
    test: float | None


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the student on test rows; of texts without classes the accuracy and loss (nats) per word.

    confusion[i][j] is the number of rows of class i predicted as class j.
    """

    accuracy: float | None
    macro_f1: float | None
    classes: tuple[str, ...] = ()
    per_class: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    confusion: tuple[tuple[int, ...], ...] = ()
    next_word_loss: float | None = None

    def value(self, metric: str) -> float | None:
        """Return a metric of the student by name; None where it was not measured."""
        own = {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "next_word_loss": self.next_word_loss,
        }
        return (own | self.weighted).get(metric)

    @property
    def weighted(self) -> dict[str, float]:
        """Precision, recall and F1 over classes weighted by their size, by metric name."""
        return weighted_scores(self.per_class)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Data sent to one language model; `destinations` is empty for a local model.

    `prompts`: number of distinct prompts; `last`: start of the last prompt. Prompts only contain synthetic texts.
    """

    plm: str
    connector: str
    destinations: tuple[str, ...]
    prompts: int
    usage: Usage
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run: what was planned, and what happened.

    Plan: `epsilon` as configured (infinite: no protection), `epsilon_exact` as accounted. `sigma` and `sensitivity` in
    votes, or in the unit of the release that replaces votes. `released`: every release of the run. `public_rows`: that
    the records are public, and why.

    Results: `epsilon_spent` is the privacy loss of the run's output over all `releases` that it depends on, including
    releases charged to other runs; None without noise. `epsilon_added` is the loss that the `releases_charged` of this
    run added to the budget; a run that reuses a release adds less than its output loses. `releases_charged` is None in
    records of earlier versions.

    `next` contains (command, purpose); `places` maps names to paths; `approval` names the approver, empty without an
    approval. `opens_rows`: True if the run opened private rows. `parties`: parties and rounds of a federated run.
    `degraded`: texts (more than 1 %), models or steps that are missing, and many answers that are not one whole text.
    `is_incomplete`: True for the former, which another execution may add; it changes no stored answer. `warnings`:
    notes about configuration or result that do not degrade the run. `discriminator`: accuracy of the classifier
    that selects texts. `budget`: dataset, cap, delta and spent epsilon when the run ended; None without a cap.
    `audited`: the audits of the noise at the end of the run, and releases that were never audited. `stubs`: models
    that are embedded stubs. `answers`: how the answers of each language model were used; empty in records of
    earlier versions. `label_advice`: which of several labels to train on.
    """

    run_id: str
    flow: str
    task: str
    state: str
    seconds: float
    epsilon: float
    epsilon_exact: float
    delta: float
    sigma: float
    sensitivity: float
    calibration: str
    protects: str
    adjacency: str
    released: tuple[Released, ...] = ()
    public_rows: str = ""
    epsilon_spent: float | None
    epsilon_added: float | None = None
    releases: int
    releases_charged: int | None = None
    n_synthetic: int
    charges: tuple[Charge, ...] = ()
    iterations: tuple[IterationRecord, ...] = ()
    degraded: tuple[str, ...] = ()
    is_incomplete: bool = False
    warnings: tuple[str, ...] = ()
    scores: Scores | None = None
    touched: tuple[UnnoisedUse, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()
    map: MapPoints | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    next: tuple[tuple[str, str], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    approval: str = ""
    opens_rows: bool = True
    parties: Mapping[str, Any] | None = None
    balance: tuple[ClassShare, ...] = ()
    usefulness: Usefulness | None = None
    sections: tuple[Section, ...] = ()
    audited: str = ""
    budget: Mapping[str, Any] | None = None
    discriminator: DiscriminatorTest | None = None
    stubs: tuple[str, ...] = ()
    answers: Mapping[str, AnswerCounts] = field(default_factory=dict)
    label_advice: str = ""

    @property
    def kinds(self) -> set[str]:
        """The kinds of all releases."""
        return {release.kind for release in self.released}

    @property
    def release_texts(self) -> list[str]:
        """All releases that a sentence describes."""
        return [release.text for release in self.released if release.text]

    @property
    def affected(self) -> str:
        """Parts of the output that depend on the releases, as the method's first release states them."""
        # Answers of teachers only select texts, so another release describes the output better.
        stated = [release.affected for release in self.released if release.affected]
        own = [
            release.affected
            for release in self.released
            if release.affected and release.kind != "teachers"
        ]
        return (own or stated or [""])[0]

    @property
    def stub_warning(self) -> str:
        """Warning that stubs wrote the texts; empty without stubs."""
        return STUBS.format(", ".join(self.stubs)) if self.stubs else ""

    @property
    def not_private(self) -> bool:
        """True if the whole run has no privacy protection."""
        return (
            math.isinf(self.epsilon) or self.epsilon_spent is None or math.isinf(self.epsilon_spent)
        )

    @property
    def unnoised(self) -> tuple[UnnoisedUse, ...]:
        """All computations on private rows without noise, including the votes of a run without noise."""
        uses = list(self.touched)
        listed = " ".join(use.what.lower() for use in uses)
        if (
            self.not_private
            and "vote" not in listed
            and "student" not in listed
            and "votes" in self.kinds
        ):
            uses.append(
                UnnoisedUse(
                    "votes of the private rows",
                    "every iteration of this run",
                    "epsilon is infinite",
                )
            )
        return tuple(uses)

    @property
    def usefulness_warnings(self) -> list[str]:
        """Why the result may be useless; empty for a useful run or one without test rows."""
        return list(self.usefulness.warnings) if self.usefulness else []

    @property
    def usage(self) -> dict[str, Usage]:
        """Usage of each language model over all iterations."""
        spent: dict[str, Usage] = {}
        for facts in self.iterations:
            for plm, usage in facts.usage.items():
                spent[plm] = spent.get(plm, Usage()) + usage
        return spent

    @property
    def endpoints(self) -> dict[str, Traffic]:
        """Calls of each endpoint of a language model over all iterations."""
        calls: dict[str, Traffic] = {}
        for facts in self.iterations:
            for name, traffic in facts.endpoints.items():
                calls[name] = calls.get(name, Traffic()) + traffic
        return calls

    @property
    def plms(self) -> tuple[str, ...]:
        """Language models in the order of their first texts."""
        return tuple(dict.fromkeys(plm for facts in self.iterations for plm in facts.new))


def to_json(record: RunRecord) -> dict[str, Any]:
    """Return a record as plain JSON values; infinite epsilon is `Infinity`."""
    return asdict(record)


def from_json(values: Mapping[str, Any]) -> RunRecord:
    """Return the record from the plain values of `to_json`; ValueError if they are no record."""
    return _adapter().validate_python(_upgraded(values))


@cache
def _adapter() -> TypeAdapter[RunRecord]:
    # Imported here: pydantic is slow to load, and most commands read no record.
    from pydantic import TypeAdapter

    return TypeAdapter(RunRecord)


HAPPENED = {
    "epsilon": "epsilon_spent",
    "added": "epsilon_added",
    "charged": "releases_charged",
    "samples": "n_synthetic",
}
"""Fields of the results under their earlier names."""


def _upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a record of an earlier version in the names of this one.

    Plan and results were objects of their own. The plan of the first version has one field for each kind of release,
    and its iterations have `probe_accuracy` under an earlier name. FID against private rows is left out.
    """
    values = {**values, "iterations": [_without_exact_fid(facts) for facts in values["iterations"]]}
    if "plan" not in values:
        return values
    plan: dict[str, Any] = dict(values["plan"])
    happened: dict[str, Any] = values["happened"]
    if "released" not in plan:
        earlier = {
            "training": "training",
            "keyphrases": "keyphrases",
            "density": "density",
            "beside": "teachers",
        }
        earlier |= {"moments": "moments"}
        released = [
            Released(kind, kind, plan[key]) for key, kind in earlier.items() if plan.get(key)
        ]
        # Votes had no separate field: noise without another main release was theirs.
        if not {release.kind for release in released} - {"moments", "teachers"} and plan["sigma"]:
            released = [Released("votes", "votes"), *released]
        plan["released"] = [asdict(release) for release in released]
    iterations = [
        facts if "probe_accuracy" in facts else facts | {"probe_accuracy": facts[EARLIER_PROBE]}
        for facts in values["iterations"]
    ]
    flat = plan | {HAPPENED.get(name, name): value for name, value in happened.items()}
    return dict(values) | flat | {"iterations": iterations}


def _without_exact_fid(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return an iteration without a FID that an earlier version computed on private rows without noise."""
    return (
        {**facts, "fid": None, "fid_reference": "none"} if facts.get("not_private") else dict(facts)
    )
