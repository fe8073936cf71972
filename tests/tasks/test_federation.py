"""The vote of several parties: real folders, books, keys and masks; parties are threads of this process."""

from pathlib import Path

import numpy as np

from tasks.guiding import candidates
from tasks.private.ballot import Ballot
from tasks.private.release import private_vectors
from tasks.private.rows import open_rows
from tasks.private.votes import clean_votes
from tests.federated import Federated, open_federated


def clear_sum(found: Federated, iteration: int = 0) -> np.ndarray:
    """Return the votes of all parties' rows together, as nobody but this test sees them."""
    texts = candidates(found.run.tools, [found.texts(one) for one in range(iteration + 1)])
    total, noise = 0, found.run.noise
    for party in found.parties.values():
        dataset = party.ledger.known(party.private.name)
        assert dataset is not None
        from tasks.private.rows import identify

        name = identify(party.zone, party.private, found.run.card.label_names, ()).fingerprint
        rows = open_rows(party.zone, party.private, name)
        vectors = private_vectors(party, name, rows)
        ballot = Ballot(
            vectors,
            rows.labels,
            noise.privacy.votes,
            rows.persons if noise.privacy.protects == "person" else None,
            party.zone.choice,
            noise.privacy.sides,
        )
        total = total + clean_votes(ballot, texts, noise).counts
    return total


def test_without_noise_the_sum_is_that_of_all_votes(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    for iteration in range(2):
        votes, _, caller = found.vote(iteration=iteration)
        assert set(caller.said.values()) == {"masked"}
        expected = clear_sum(found, iteration)
        assert np.array_equal(np.stack([votes.near, votes.far], axis=1), expected)
        assert expected.sum() > 0
