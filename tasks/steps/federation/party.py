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
from tasks.accounting.federated import Parties, require_enough
from tasks.core.reuse import step_key
from tasks.core.tools import RowTools
from tasks.federation.masked_round import Announcement, transcript_of
from tasks.federation.messages import RoundPlan

REFUSED: Final[dict[str, str]] = {
    "CAP": "its own budget cap does not allow this run",
    "ROWS": "its rows were rejected; the party's state folder contains the reason",
    "PLAN": "it rejected the plan of the round",
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
class Member:
    """One party: name, long-term key (32 bytes), public keys (PEM), requirements.

    `colluding`: the party rejects plans that protect against fewer colluding parties. `settle` writes the cap and group
    of its rows to its ledger; `who` is the user of its reservations.
    """

    name: str
    secret: bytes = field(repr=False)
    registry: Mapping[str, bytes]
    colluding: int = 0
    who: str = ""
    settle: Callable[[str], None] = _no_settings


def registry_digest(registry: Mapping[str, bytes], parties: Sequence[str]) -> str:
    """Return the digest of the participants' public keys."""
    return digest({name: registry.get(name, b"").decode() for name in parties})


def check_plan(tools: RowTools, member: Member, plan: RoundPlan) -> None:
    """Raise ConfigError with all problems if this party rejects a round's plan."""
    where, privacy = tools.private.where, plan.privacy
    require_enough(Parties(plan.number, plan.minimum, plan.colluding), len(plan.parties))
    wrong = {
        "it does not include this party": member.name not in plan.parties,
        "it has a different registry of parties": plan.registry != registry_digest(member.registry, plan.parties),
        f"it only protects against {plan.colluding} colluding parties": plan.colluding < member.colluding,
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
        (CoordinatorGoneError, "ALONE"),
        (BudgetError, "CAP"),
        (PrivateInputError, "ROWS"),
        (PlaceError, "ROWS"),
        (LostArtifactsError, "PAID"),
        (LedgerError, "BOOK"),
        (ConfigError, "PLAN"),
    )
    return next((code for kind, code in kinds if isinstance(error, kind)), "OTHER")
