"""A party of a federation: who it is, what it insists on, and what it tells others when it does not take part."""

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
    "ROWS": "its rows were refused; their owner finds why in the party's state folder",
    "PLAN": "it does not agree with the plan of the round",
    "PAID": "it has paid for this vote before, under other keys or for other texts",
    "BOOK": "its budget book cannot be used",
    "KEY-LOST": "it was started again and has no key of this round any more",
    "ALONE": "the coordinator did not go on in time",
    "OTHER": "a step failed there; its own log says which",
}
"""What a coordinator is told of a party's trouble: no number, and of the rows only that they are in trouble."""

BUSY: Final = frozenset({500, 504})
"""What a Prefect server answers that has more to do than it can, beside what its client asks again by itself."""


class KeyLostError(WaspError):
    """The key that was announced for the round is not in this process, so it cannot mask."""

    def __init__(self) -> None:
        super().__init__("The round's key was made by a process that has ended; a new attempt makes a new one.")


class CoordinatorGoneError(WaspError):
    """The coordinator did not go on with the round in time."""

    def __init__(self) -> None:
        super().__init__("The coordinator did not go on with the round in time; nothing was sent by this party.")


def _as_it_is(dataset: str) -> None:
    """Leave the budget book as it is."""


@dataclass(frozen=True, slots=True)
class Member:
    """One party: its name, its long-term key (32 bytes), everybody's public keys (PEM), and what it insists on.

    `colluding`: a plan that protects against fewer colluding parties is refused. `settle` writes cap and group of its
    rows into its budget book; `who` is who reserves.
    """

    name: str
    secret: bytes = field(repr=False)
    registry: Mapping[str, bytes]
    colluding: int = 0
    who: str = ""
    settle: Callable[[str], None] = _as_it_is


def registry_digest(registry: Mapping[str, bytes], parties: Sequence[str]) -> str:
    """Return what coordinator and parties compare: the digest of the keys of those that take part."""
    return digest({name: registry.get(name, b"").decode() for name in parties})


def check_plan(tools: RowTools, member: Member, plan: RoundPlan) -> None:
    """Raise ConfigError with what is wrong unless this party agrees with a round's plan."""
    where, privacy = tools.private.where, plan.privacy
    require_enough(Parties(plan.number, plan.minimum, plan.colluding), len(plan.parties))
    wrong = {
        "this party is not in it": member.name not in plan.parties,
        "its registry of parties is another one": plan.registry != registry_digest(member.registry, plan.parties),
        f"it reckons with {plan.colluding} colluding parties, too few": plan.colluding < member.colluding,
        f"its embedder is {plan.embedder}, here {tools.embedder.identity}": plan.embedder != tools.embedder.identity,
        "it protects persons and private.person is empty": privacy.protects == "person" and where.person is None,
        "private.rows without private.of needs adjacency replace_one": where.lets_rows_in
        and privacy.adjacency == "add_remove",
    }
    found = [what for what, holds in wrong.items() if holds]
    if found:
        raise ConfigError(f"The plan of round {plan.id.folder} is refused: {'; '.join(found)}. Nothing was sent.")


def key_in_book(plan: RoundPlan, announcements: Sequence[Announcement]) -> str:
    """Return the key of a party's release: one for each attempt and set of round keys."""
    transcript = transcript_of(plan.round, announcements).hex() if announcements else ""
    return step_key("party_vote", {"step": plan.step}, {"transcript": transcript}).key


def code_of(error: Exception) -> str:
    """Return the code that a coordinator may be told for an error of the party."""
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
