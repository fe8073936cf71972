"""Attacks on one whole run with canaries: their membership, by votes or by texts.

One run is enough if each of many canaries was included by a coin (`tasks.attacks.bounds.one_run_bound`). The number of
guesses is fixed beforehand. Half of them state that the canaries with the highest scores were included, half that those
with the lowest scores were left out. A canary begins like any row and ends in invented words (Meeus et al. 2025): the
beginning makes it take part like a row, and the end cannot get into a text from anywhere else.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.embedding import Embedder
from tasks.attacks.bounds import one_run_bound, right_guesses
from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.count import clean_votes
from tasks.private.votes.promise import VoteNoise

Floats = NDArray[np.float64]
Coins = NDArray[np.bool_]

RARE_WORDS: Final = 5
_VOWELS, _CONSONANTS, _LETTERS = "aeiou", "bcdfghjklmnpqrstvwxz", 7


@dataclass(frozen=True, slots=True)
class Canary:
    """One synthetic record: text, label, and the result of the coin."""

    text: str
    label: str
    included: bool


@dataclass(frozen=True, slots=True)
class Guesses:
    """The guesses of one attack about coins.

    `correct` of `guesses` are right, which proves an epsilon of at least `bound`. `auc`: probability that an included
    canary has the higher score.
    """

    what: str
    guesses: int
    correct: int
    bound: float
    auc: float


def make_canaries(rows: Sequence[tuple[str, str]], number: int) -> list[Canary]:
    """Return `number` canaries that begin like `rows` (text, label), each row equally often.

    Coins and words use the operating system's randomness: nobody can predict which canaries are included.
    """
    order = list(range(len(rows)))
    secrets.SystemRandom().shuffle(order)
    words: set[str] = set()
    while len(words) < number * RARE_WORDS:
        letters = [secrets.choice((_CONSONANTS, _VOWELS)[index % 2]) for index in range(_LETTERS)]
        words.add("".join(letters))
    canaries = []
    for index in range(number):
        text, label = rows[order[index % len(order)]]
        # half of the characters: scripts without spaces have no words to count
        begun = text[: max(1, len(text) // 2)].rsplit(" ", 1)[0]
        end = [words.pop() for _ in range(RARE_WORDS)]
        canaries.append(Canary(" ".join([begun, *end]), label, bool(secrets.randbits(1))))
    return canaries


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The view of attackers on one run: its synthetic `texts` and `releases`, and all rows, but not the coins.

    `others`: the other rows (text, label) that took part. `noise`: of the votes. `fit` trains a language model on texts
    and returns its likelihood of a text.
    """

    texts: pd.DataFrame
    releases: Sequence[pd.DataFrame]
    canaries: Sequence[Canary]
    others: Sequence[tuple[str, str]]
    embedder: Embedder
    noise: VoteNoise
    fit: Callable[[Sequence[str]], Callable[[str], float]]


def attack_run(evidence: Evidence, guesses: int, confidence: float) -> list[Guesses]:
    """Return the guesses of two attacks: by the noisy votes, and by a language model of the synthetic texts."""
    included = np.array([canary.included for canary in evidence.canaries])
    likelihood = evidence.fit(evidence.texts["text"].tolist())
    scores = {
        "noisy votes": vote_scores(evidence),
        "likelihood of the texts": np.array(
            [likelihood(canary.text) for canary in evidence.canaries]
        ),
    }
    delta = evidence.noise.delta
    return [
        guess(what, of_each, included, guesses, delta, confidence)
        for what, of_each in scores.items()
    ]


def guess(
    what: str, scores: Floats, included: Coins, guesses: int, delta: float, confidence: float
) -> Guesses:
    """Return the conclusions from scores, which are higher for canaries that seem to have taken part."""
    from sklearn.metrics import roc_auc_score

    correct = right_guesses(scores, included, guesses)
    bound = one_run_bound(len(scores), guesses, correct, delta, confidence)
    return Guesses(what, guesses, correct, bound, float(roc_auc_score(included, scores)))


def vote_scores(evidence: Evidence) -> Floats:
    """Return the estimated share of each canary's votes in the releases, roughly between -1/2 and 1/2.

    The attacker knows all rows but the coins: it subtracts the votes of the other rows and half of the canaries'. A
    regression of the rest on each canary's votes separates canaries that vote for the same texts.
    """
    from sklearn.linear_model import BayesianRidge

    texts = evidence.texts
    noise = evidence.noise
    # as in the run: candidates are embedded in batches, voting rows one at a time
    synthetic = evidence.embedder.embed(texts["text"].tolist())
    canaries = _ballots(evidence, [(canary.text, canary.label) for canary in evidence.canaries])
    others = _ballots(evidence, evidence.others)
    by_id = texts.assign(row=np.arange(len(texts))).set_index("sample_id")
    known = []
    counts = []
    for release in evidence.releases:
        voted = by_id.loc[release["sample_id"]]
        candidates = Candidates(
            voted.index.to_numpy(np.int64), voted["label"].to_numpy(str), synthetic[voted["row"]]
        )
        own, other = (
            np.array([clean_votes(row, candidates, noise).counts for row in rows])
            for rows in (canaries, others)
        )
        known.append(own.reshape(len(own), -1).T / noise.scale)
        # Half of the canaries' votes: each of them took part with probability 1/2.
        rest = release[["near", "far"]].to_numpy() - other.sum(axis=0) - own.sum(axis=0) / 2
        counts.append(rest.ravel() / noise.scale)
    return np.asarray(
        BayesianRidge(fit_intercept=False).fit(np.concatenate(known), np.concatenate(counts)).coef_
    )


def _ballots(evidence: Evidence, rows: Sequence[tuple[str, str]]) -> list[Ballot]:
    """Return the ballot of each row alone, the only row of its person."""
    votes = evidence.noise.privacy.votes
    person = [""] if evidence.noise.privacy.protects == "person" else None
    vectors = evidence.embedder.embed_alone([text for text, _ in rows])
    return [
        Ballot(vectors[row : row + 1], [label], votes, person)
        for row, (_, label) in enumerate(rows)
    ]
