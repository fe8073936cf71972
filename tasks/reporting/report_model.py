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
class Released:
    """A release of a run: name, kind, what it contains as a sentence, what of the output depends on it."""

    name: str
    kind: str
    text: str = ""
    affected: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A further section of a report: a title, a paragraph, and a table (heads, rows of cells)."""

    title: str
    text: str = ""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run.

    `epsilon` as configured (infinite: no protection), `epsilon_exact` as accounted. `sigma` and `sensitivity` in votes,
    or in the unit of the release that replaces votes. `released`: every release of the run. `public_rows`: that the
    records are public, and why. `calls`, `dollars` and `samples` of all language models together.
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
    released: tuple[Released, ...] = ()
    public_rows: str = ""

    @property
    def kinds(self) -> set[str]:
        """The kinds of all releases."""
        return {release.kind for release in self.released}

    @property
    def texts(self) -> list[str]:
        """All releases that a sentence describes."""
        return [release.text for release in self.released if release.text]

    @property
    def affected(self) -> str:
        """What of the output depends on the releases: the statement of the first release of the method."""
        stated = [release.affected for release in self.released if release.affected]
        own = [release.affected for release in self.released if release.affected and release.kind != "teachers"]
        return (own or stated or [""])[0]


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
    sections: tuple[Section, ...] = ()

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
        return "votes" in self.plan.kinds

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
    made["plan"] = _plan(values["plan"])
    made["sections"] = tuple(_section(section) for section in values.get("sections", ()))
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


def _plan(values: Mapping[str, Any]) -> Plan:
    """Return a plan; reports of earlier versions have one field for each kind of release."""
    earlier = {"training": "training", "keyphrases": "keyphrases", "density": "density", "beside": "teachers"}
    earlier |= {"moments": "moments"}
    if "released" in values:
        released = tuple(Released(**release) for release in values["released"])
    else:
        released = tuple(Released(kind, kind, values[key]) for key, kind in earlier.items() if values.get(key))
        if not {release.kind for release in released} - {"moments", "teachers"} and values["sigma"]:
            released = (Released("votes", "votes"), *released)
    kept = {name: value for name, value in values.items() if name not in earlier and name != "released"}
    return Plan(**kept, released=released)


def _section(values: Mapping[str, Any]) -> Section:
    return Section(values["title"], values["text"], tuple(values["heads"]), tuple(map(tuple, values["rows"])))


def _points(values: Any) -> Any:
    return values if isinstance(values, str) else tuple(map(tuple, values))


def _facts(values: Mapping[str, Any]) -> Facts:
    return Facts(**{**values, "usage": {plm: Usage(**usage) for plm, usage in values["usage"].items()}})


def _outgoing(values: Mapping[str, Any]) -> Outgoing:
    return Outgoing(**{**values, "destinations": tuple(values["destinations"]), "usage": Usage(**values["usage"])})


def _scores(values: Mapping[str, Any]) -> Scores:
    lists = {"classes": tuple(values["classes"]), "confusion": tuple(tuple(row) for row in values["confusion"])}
    return Scores(**{**values, **lists})
