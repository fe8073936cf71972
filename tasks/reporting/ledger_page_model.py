"""Data of the privacy officer's page, shared by all languages and the JSON output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Key = TypeVar("Key")
_AMOUNTS = ("calls", "tokens_in", "tokens_out")


@dataclass(frozen=True, slots=True)
class Sent:
    """Data sent to one language model: hosts, calls and tokens.

    An empty `hosts` means that the model ran on this machine.
    """

    plm: str
    hosts: tuple[str, ...]
    calls: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class NoiseLine:
    """Equal releases of a run: number, mechanism, noise scale, sensitivity."""

    times: int
    mechanism: str
    scale: float
    sensitivity: float
    reason: str


@dataclass(frozen=True, slots=True)
class Among:
    """Parties of a federated run: number, minimum per sum, maximum colluding."""

    run_id: str
    parties: int
    minimum: int
    colluding: int
    unit: str


@dataclass(frozen=True, slots=True)
class AuditLine:
    """The newest audit of a noise: mechanism, claimed epsilon, proven lower bound."""

    run_id: str
    ended: str
    mechanism: str
    passed: bool
    claimed: float
    proven: float


@dataclass(frozen=True, slots=True)
class RunLine:
    """The effect of one run on the dataset; an infinite epsilon is None.

    `state`: open (can still release), closed, refused (requested more than was left), nothing (released nothing).
    `releases`: number of releases that the run's output depends on; the run `charged` some and reused the others.
    `added`: epsilon of the charged releases. `loss`: epsilon of all releases, an upper bound (`at_most`) if the run's
    files are missing. `asked`: configured epsilon. `sure`: certainty that an attacker who sees the run's output reaches
    from 50 % and from 1 %. `files`: True if the run's files exist. `audits`: the newest audits of its noise;
    `never_audited`: the releases without one.
    """

    run_id: str
    flow: str
    who: str
    first: str
    last: str
    state: str
    charged: int
    releases: int
    added: float | None
    loss: float | None
    at_most: bool
    asked: float | None
    delta: float
    unit: str
    sure: tuple[float, float]
    noise: tuple[NoiseLine, ...]
    files: bool
    sent: tuple[Sent, ...] = ()
    without_noise: tuple[str, ...] = ()
    audits: tuple[AuditLine, ...] = ()
    never_audited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One displayed line of the ledger."""

    number: int
    at: str
    who: str
    kind: str
    run_id: str
    slot: str
    mechanism: str
    epsilon: float | None
    hash: str
    remark: str


@dataclass(frozen=True, slots=True)
class Touch:
    """One use of private rows without noise: its result and the place that shows it.

    `dataset`: member of the group; empty for the page's own dataset. `at` and `who` are empty if only a report mentions
    the use.
    """

    at: str
    who: str
    flow: str
    run_id: str
    what: str
    where: str
    dataset: str = ""


@dataclass(frozen=True, slots=True)
class Exported:
    """One exported bundle; `manifest` is the SHA-256 of its manifest.

    `overlap`: result of the overlap search, which is not private; None without a search. `approved`: name of the
    approver, empty if no approval was required.
    """

    at: str
    who: str
    run_id: str
    manifest: str
    license: str
    overlap: bool | None
    approved: str


@dataclass(frozen=True, slots=True)
class SharedTotals:
    """Releases of another dataset of the group that are also charged to this one."""

    dataset: str
    run_id: str
    who: str
    releases: int


@dataclass(frozen=True, slots=True)
class OfficerPage:
    """The content of the page that a privacy officer signs.

    Epsilons apply at `delta`. `left` and `cap` are None without a cap. `trainings`: epsilon and delta of the cap that
    only trainings may spend. `unit`: protected unit of the totals, record or
    person. `members`: other datasets of the `group`, which share all charges. `problems`: errors in the ledger; empty
    if it is valid. `head`: hash of the ledger's last line. `among`: runs of several parties. `of_party`: the ledger
    belongs to one of the parties, otherwise to their coordinator.
    """

    dataset: str
    names: tuple[str, ...]
    made: str
    sure: tuple[float, float]
    cap: float | None = None
    cap_protects: str | None = None
    delta: float | None = None
    spent: float = 0.0
    reserved: float = 0.0
    left: float | None = None
    trainings: tuple[float, float] | None = None
    units: tuple[str, ...] = ()
    unit: str = "record"
    exposed: bool = False
    voided: int = 0
    refused: int = 0
    versions: int = 0
    problems: tuple[str, ...] = ()
    head: str = ""
    runs: tuple[RunLine, ...] = ()
    lines: tuple[Line, ...] = ()
    group: str = ""
    members: tuple[str, ...] = ()
    shared: tuple[SharedTotals, ...] = ()
    touched: tuple[Touch, ...] = ()
    exports: tuple[Exported, ...] = ()
    among: tuple[Among, ...] = ()
    of_party: bool = False

    @property
    def recipients(self) -> list[tuple[int, Sent]]:
        """Each model and its hosts once: number of runs, and what they sent in all."""
        grouped: dict[tuple[str, tuple[str, ...]], list[Sent]] = {}
        for sent in (sent for run in self.runs for sent in run.sent):
            grouped.setdefault((sent.plm, sent.hosts), []).append(sent)
        return [
            (len(all_sent), Sent(plm, hosts, *(sum(getattr(sent, name) for sent in all_sent) for name in _AMOUNTS)))
            for (plm, hosts), all_sent in grouped.items()
        ]

    @property
    def audited(self) -> dict[AuditLine, list[str]]:
        """Each audit once, with the runs whose noise it attacked."""
        return _inverted((audit, run.run_id) for run in self.runs for audit in run.audits)

    @property
    def never_audited(self) -> dict[str, list[str]]:
        """Each release that was never audited, with its runs."""
        return _inverted((release, run.run_id) for run in self.runs for release in run.never_audited)

    def to_json(self) -> dict[str, Any]:
        """Return the page as plain JSON values."""
        from dataclasses import asdict

        return asdict(self)


def _inverted(pairs: Iterable[tuple[Key, str]]) -> dict[Key, list[str]]:
    grouped: dict[Key, list[str]] = {}
    for value, run_id in pairs:
        grouped.setdefault(value, []).append(run_id)
    return grouped
