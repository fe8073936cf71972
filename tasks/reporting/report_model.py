"""What a report tells: plain frozen values, ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.interfaces.ledger import Charge
from connectors.interfaces.models import Usage
from tasks.metrics.iteration_record import Facts
from tasks.metrics.usefulness import Usefulness, usefulness_of

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run set out to do. `epsilon` was asked for (infinite: no protection), `epsilon_exact` is what the noise
    buys; `sigma` and `sensitivity` in votes, or of a gradient where private rows are learned from, which `training`
    says in words, or of sums of features, which `keyphrases` or `density` does; `moments`: what else a student adapts
    to; `beside` words label counts and teachers; `public_rows`: that the rows are public; `calls`, `dollars` and
    `samples` of all PLMs together.
    """

    epsilon: float
    epsilon_exact: float
    delta: float
    sigma: float
    sensitivity: float
    releases: int
    calibration: str
    protects: str
    adjacency: str
    samples: int
    calls: int | None = None
    dollars: float | None = None
    training: str = ""
    keyphrases: str = ""
    moments: str = ""
    beside: str = ""
    density: str = ""
    public_rows: str = ""


@dataclass(frozen=True, slots=True)
class Happened:
    """What a run did. An epsilon is None where no number describes the loss (no noise).

    `epsilon` is the privacy loss of the run's output: all `releases` that it depends on, whichever run paid for them.
    `added` is what the `charged` releases of this run added to the budget; a run that reuses a release adds less than
    its output loses. `charged` None: a report of an earlier version, which does not say.
    """

    epsilon: float | None
    releases: int
    samples: int
    charges: tuple[Charge, ...] = ()
    added: float | None = None
    charged: int | None = None


@dataclass(frozen=True, slots=True)
class ClassShare:
    """Part of one class: what the tutor said under noise, in the result, among test rows (None without any)."""

    name: str
    tutor: float
    texts: float
    test: float | None


CLASSES_TRACKED = 50


@dataclass(frozen=True, slots=True)
class Scores:
    """How the student did on test rows; confusion[i][j] counts rows of class i taken for class j."""

    accuracy: float | None
    macro_f1: float | None
    classes: tuple[str, ...] = ()
    per_class: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    confusion: tuple[tuple[int, ...], ...] = ()

    @property
    def by_class(self) -> dict[str, float]:
        """Scores of the first classes as metrics of their own, by name; a tracker would drown in hundreds."""
        named = list(self.per_class.items())[:CLASSES_TRACKED]
        return {f"student_{what}.{name}": one[what] for name, one in named for what in ("precision", "recall", "f1")}


@dataclass(frozen=True, slots=True)
class Sample:
    """One synthetic text, as an example."""

    plm: str
    label: str
    iteration: int
    text: str


@dataclass(frozen=True, slots=True)
class Touched:
    """One computation on private rows without noise: what it was, where its result is, why it was asked for."""

    what: str
    where: str
    why: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What one PLM was sent. `destinations`: the hosts that received it, none for a model on this machine.

    `prompts`: different prompts; `last`: the beginning of the last one. Prompts hold synthetic texts only.
    """

    plm: str
    connector: str
    destinations: tuple[str, ...]
    prompts: int
    usage: Usage
    last: str


@dataclass(frozen=True, slots=True)
class MapPoints:
    """Embeddings on a plane, of synthetic texts, test rows and examples of prompts, never of private rows.

    `by`: which plane.
    """

    synthetic: tuple[Point, ...]
    test: tuple[Point, ...]
    shown: tuple[Point, ...] = ()
    by: str = "principal axes"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the page of a run tells. `next` holds (command, what for); `places` holds name -> path;
    `approval` says who approved the plan, '' where nobody was asked. `opens_rows`: whether it opened private rows;
    `parties`: who held them and what travelled, where several did. `degraded`: texts, models and steps that are fewer
    than configured; `warnings`: what the user should know about the configuration or the result, which takes nothing
    from the run.
    """

    run_id: str
    flow: str
    task: str
    state: str
    seconds: float
    plan: Plan
    happened: Happened
    iterations: tuple[Facts, ...] = ()
    degraded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    scores: Scores | None = None
    samples: tuple[Sample, ...] = ()
    touched: tuple[Touched, ...] = ()
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

    @property
    def not_private(self) -> bool:
        """Whether the run gave up protection as a whole."""
        return math.isinf(self.plan.epsilon) or self.happened.epsilon is None or math.isinf(self.happened.epsilon)

    @property
    def unnoised(self) -> tuple[Touched, ...]:
        """Everything that was computed on private rows without noise, what nobody listed included."""
        found = list(self.touched)
        listed = " ".join(one.what.lower() for one in found)
        if self.not_private and "vote" not in listed and "student" not in listed and self._voted:
            found.append(Touched("votes of the private rows", "every iteration of this run", "epsilon is infinite"))
        if any(facts.not_private for facts in self.iterations) and "fid" not in listed:
            found.append(Touched("FID against private rows", "this page", "evaluation.fid_reference is private"))
        return tuple(found)

    @property
    def _voted(self) -> bool:
        return not self.plan.training and not (self.plan.beside and not self.plan.sigma)

    @property
    def usage(self) -> dict[str, Usage]:
        """What each PLM cost over all iterations."""
        spent: dict[str, Usage] = {}
        for facts in self.iterations:
            for plm, usage in facts.usage.items():
                spent[plm] = spent.get(plm, Usage()) + usage
        return spent

    @property
    def plms(self) -> tuple[str, ...]:
        """The PLMs in the order in which they first wrote."""
        return tuple(dict.fromkeys(plm for facts in self.iterations for plm in facts.new))


def to_json(report: Report) -> dict[str, Any]:
    """Return a report as plain JSON values (an infinite epsilon as Python's `Infinity`)."""
    return asdict(report)


def from_json(values: Mapping[str, Any]) -> Report:
    """Return the report that `to_json` turned into plain values."""
    made = dict(values)
    made["plan"] = Plan(**values["plan"])
    charges = tuple(Charge(**charge) for charge in values["happened"]["charges"])
    made["happened"] = Happened(**{**values["happened"], "charges": charges})
    made["iterations"] = tuple(_facts(one) for one in values["iterations"])
    made["scores"] = _scores(values["scores"]) if values["scores"] else None
    made["samples"] = tuple(Sample(**one) for one in values["samples"])
    made["touched"] = tuple(Touched(**one) for one in values["touched"])
    made["map"] = MapPoints(**{k: _points(v) for k, v in values["map"].items()}) if values["map"] else None
    made["outgoing"] = tuple(_outgoing(one) for one in values["outgoing"])
    made["degraded"], made["warnings"] = tuple(values["degraded"]), tuple(values.get("warnings", ()))
    made["balance"] = tuple(ClassShare(**one) for one in values.get("balance", ()))
    made["usefulness"] = usefulness_of(values.get("usefulness"))
    made["next"] = tuple((command, purpose) for command, purpose in values["next"])
    return Report(**made)


def _points(values: Any) -> Any:
    return values if isinstance(values, str) else tuple(map(tuple, values))


def _facts(values: Mapping[str, Any]) -> Facts:
    return Facts(**{**values, "usage": {plm: Usage(**usage) for plm, usage in values["usage"].items()}})


def _outgoing(values: Mapping[str, Any]) -> Outgoing:
    return Outgoing(**{**values, "destinations": tuple(values["destinations"]), "usage": Usage(**values["usage"])})


def _scores(values: Mapping[str, Any]) -> Scores:
    lists = {"classes": tuple(values["classes"]), "confusion": tuple(tuple(row) for row in values["confusion"])}
    return Scores(**{**values, **lists})
