"""What the officer's page knows: one value for every language and for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sent:
    """What one language model was sent: where to, how many calls and tokens. No hosts: it ran on this machine."""

    plm: str
    hosts: tuple[str, ...]
    calls: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Noise:
    """Equal releases of a run: how many, by which mechanism, how strong the noise was and why that suffices."""

    times: int
    mechanism: str
    scale: float
    sensitivity: float
    reason: str


@dataclass(frozen=True, slots=True)
class Among:
    """Releases of a run that are sums over several parties: how many, the fewest in a sum, how many may collude."""

    run_id: str
    parties: int
    minimum: int
    colluding: int
    unit: str


@dataclass(frozen=True, slots=True)
class AuditLine:
    """The newest audit of some noise: what was attacked, epsilon claimed, and epsilon that was proven at least."""

    run_id: str
    ended: str
    mechanism: str
    passed: bool
    claimed: float
    proven: float


@dataclass(frozen=True, slots=True)
class RunLine:
    """What one run did to the dataset. An epsilon is None where it is infinite.

    `state`: open (may still release), closed, refused (asked for more than was left), nothing (released nothing).
    `releases`: those that the run's output depends on; the run `charged` some of them and reused the others.
    `added`: epsilon of the former; `loss`: epsilon of all, `at_most` where the run's own files do not say which.
    `asked`: epsilon that the run was configured for. `sure`: what an attacker who starts at 50 % and at 1 % can reach,
    who sees the run's output. `files`: whether the run's own files were found.
    `audits`: the newest audits of its noise.
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
    noise: tuple[Noise, ...]
    files: bool
    sent: tuple[Sent, ...] = ()
    without_noise: tuple[str, ...] = ()
    student_accuracy: float | None = None
    audits: tuple[AuditLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the book as it is shown."""

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
    """One time that private rows were used without noise: what came of it and where it is shown.

    `dataset`: which one of the group; empty: the page's own. `at` and `who` are empty where only a report tells of it.
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
    """One bundle that left: `manifest` is the SHA-256 of its manifest, `overlap` the answer of the search, not private.

    `overlap` None: not searched. `approved`: who else agreed, empty if nobody was asked.
    """

    at: str
    who: str
    run_id: str
    manifest: str
    license: str
    overlap: bool | None
    approved: str


@dataclass(frozen=True, slots=True)
class Shared:
    """What another dataset of the group released and this one pays for as well."""

    dataset: str
    run_id: str
    who: str
    releases: int


@dataclass(frozen=True, slots=True)
class OfficerPage:
    """All that an officer signs. Epsilons at `delta`; `left` and `cap` None: no cap was set.

    `unit`: what the totals hold for, record or person. `members`: other datasets of the `group`, which pay together.
    `problems`: what does not hold in the book; empty if it is sound. `head`: hash of the book's last line. `among`:
    runs of several parties; `of_party`: the book is that of one of them, else that of their coordinator.
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
    shared: tuple[Shared, ...] = ()
    touched: tuple[Touch, ...] = ()
    exports: tuple[Exported, ...] = ()
    among: tuple[Among, ...] = ()
    of_party: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the page as plain JSON values."""
        from dataclasses import asdict

        return asdict(self)
