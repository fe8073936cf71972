"""Votes of parties without masks and noise, to compare with the released sum."""

from __future__ import annotations

import numpy as np

from tasks.private.data.rows import identify, open_rows
from tasks.private.voting.ballot import Ballot
from tasks.private.voting.release import private_vectors
from tasks.private.voting.votes import clean_votes
from tasks.steps.selection import candidates
from tests.support.runs.federation import Federated

SHORT = 0.06
"""Minutes that parties are waited for where one of them stays away."""


def clear_votes(found: Federated, party: str, iteration: int = 0) -> np.ndarray:
    """Return the votes of one party's rows as nobody but this test sees them, shape (texts, sides)."""
    texts = candidates(found.run.tools, [found.texts(one) for one in range(iteration + 1)])
    one, privacy = found.parties[party], found.run.noise.privacy
    name = identify(one.zone, one.private, found.run.card.label_names, ()).fingerprint
    rows = open_rows(one.zone, one.private, name)
    persons = rows.persons if privacy.protects == "person" else None
    vectors = private_vectors(one, rows)
    ballot = Ballot(vectors, rows.labels, privacy.votes, persons, one.zone.choice, privacy.sides)
    return clean_votes(ballot, texts, found.run.noise).counts


def clear_sum(found: Federated, iteration: int = 0, without: tuple[str, ...] = ()) -> np.ndarray:
    return np.sum([clear_votes(found, party, iteration) for party in found.parties if party not in without], axis=0)


def both_sides(votes) -> np.ndarray:
    return np.stack([votes.near, votes.far], axis=1)
