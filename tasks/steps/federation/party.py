"""A party of a federation: identity, requirements and refusal codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import (
    BudgetError,
    ConfigError,
    LedgerError,
    LostArtifactsError,
    PlaceError,
    PrivateInputError,
    WaspError,
)
from tasks.accounting.federated import Parties, require_enough, run_epsilon
from tasks.core.reuse import step_key
from tasks.core.tools import RowTools
from tasks.federation.masked_round import Announcement, PlanMismatchError, require_range, transcript_of
from tasks.federation.messages import PlanSignatureError, RoundPlan

REFUSED: Final[dict[str, str]] = {
    "CAP": "its own budget cap does not allow this run",
    "ROWS": "its rows were rejected; the party's state folder contains the reason",
    "PLAN": "it rejected the plan of the round",
    "SIGNER": "the coordinator's key in its registry did not sign the plan of the round",
    "UNEQUAL": "it received another plan of the round than other parties",
    "PAID": "it already paid for this vote with other keys or texts",
    "BOOK": "its ledger cannot be used",
    "KEY-LOST": "it restarted and lost its key of this round",
    "ALONE": "it timed out waiting for the coordinator",
    "OTHER": "one of its steps failed; see the party's log",
}
"""Messages for the codes that a party sends to the coordinator; they contain no numbers and nothing about rows."""

BUSY: Final = frozenset({500, 504})
"""HTTP status codes of an overloaded Prefect server, in addition to those that its client retries."""


class KeyLostError(WaspError):
    """The process does not have the announced key of the round and cannot mask."""

    def __init__(self) -> None:
        super().__init__("Round key: the process that created it has ended. A new attempt creates a new key.")


class CoordinatorGoneError(WaspError):
    """The coordinator did not continue the round before the timeout."""

    def __init__(self) -> None:
        super().__init__("Coordinator: it did not continue the round before the timeout. This party sent nothing.")


def _no_settings(dataset: str) -> None:
    """Leave the ledger unchanged."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """The owner's requirements of a plan; none depends on the rows.

    `minimum`: fewest parties in a sum. `colluding`: fewest colluding parties that the noise must tolerate.
    `epsilon_at_most`: largest epsilon of one run, at `delta`. `declared_rows`: largest number of rows, a public number.
    `labels`: classes that the party votes on, None for all.
    """

    minimum: int
    colluding: int
    epsilon_at_most: float
    delta: float
    declared_rows: int
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One party: name, long-term key (32 bytes), public keys (PEM) of the parties and of the coordinator, requirements.

    `settle` writes the cap and group of its rows to its ledger; `who` is the user of its reservations.
    """

    name: str
    secret: bytes = field(repr=False)
    registry: Mapping[str, bytes]
    coordinator: bytes
    requires: Requirements
    who: str = ""
    settle: Callable[[str], None] = _no_settings


def registry_digest(registry: Mapping[str, bytes], parties: Sequence[str]) -> str:
    """Return the digest of the participants' public keys."""
    return digest({name: registry.get(name, b"").decode() for name in parties})


def check_plan(tools: RowTools, member: Member, plan: RoundPlan) -> None:
    """Raise ConfigError with all problems if this party rejects a round's plan.

    The decision depends on the plan and the owner's file alone, never on the rows.
    """
    where, privacy, requires, noise = tools.private.where, plan.privacy, member.requires, plan.noise
    require_enough(Parties(plan.number, plan.minimum, plan.colluding), len(plan.parties))
    require_range(plan.round, requires.declared_rows, noise.total.scale, noise.share_int)
    epsilon = run_epsilon(noise, requires.delta)
    unknown = [label for label in plan.labels if requires.labels is not None and label not in requires.labels]
    wrong = {
        "it does not include this party": member.name not in plan.parties,
        "it has a different registry of parties": plan.registry != registry_digest(member.registry, plan.parties),
        f"it only protects against {plan.colluding} colluding parties": plan.colluding < requires.colluding,
        f"it sums {plan.minimum} parties, minimum is {requires.minimum}": plan.minimum < requires.minimum,
        f"its epsilon is {epsilon:.4g}, epsilon_at_most is {requires.epsilon_at_most:g}": epsilon
        > requires.epsilon_at_most * (1 + 1e-9),
        f"it has iteration {plan.iteration} of {privacy.releases}": plan.iteration >= privacy.releases,
        f"labels lacks its class '{unknown[0] if unknown else ''}'": bool(unknown),
        f"its embedder is {plan.embedder}, not {tools.embedder.identity}": plan.embedder != tools.embedder.identity,
        "it protects persons and private.person is empty": privacy.protects == "person" and where.person is None,
        "private.rows without private.of requires adjacency replace_one": where.lets_rows_in
        and privacy.adjacency == "add_remove",
    }
    problems = [problem for problem, applies in wrong.items() if applies]
    if problems:
        raise ConfigError(f"Plan of round {plan.id.folder}: {'; '.join(problems)}. Nothing was sent.")


def ledger_key(plan: RoundPlan, announcements: Sequence[Announcement]) -> str:
    """Return the ledger key of a party's release per attempt and round keys."""
    transcript = transcript_of(plan.round, announcements).hex() if announcements else ""
    return step_key("party_vote", {"step": plan.step}, {"transcript": transcript}).key


def error_code(error: Exception) -> str:
    """Return the code that is safe to send to a coordinator for an error of the party."""
    kinds: tuple[tuple[type[WaspError], str], ...] = (
        (KeyLostError, "KEY-LOST"),
        (PlanSignatureError, "SIGNER"),
        (PlanMismatchError, "UNEQUAL"),
        (CoordinatorGoneError, "ALONE"),
        (BudgetError, "CAP"),
        (PrivateInputError, "ROWS"),
        (PlaceError, "ROWS"),
        (LostArtifactsError, "PAID"),
        (LedgerError, "BOOK"),
        (ConfigError, "PLAN"),
    )
    return next((code for kind, code in kinds if isinstance(error, kind)), "OTHER")
