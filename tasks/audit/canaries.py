"""Attacks on one whole run with canaries: their membership, by votes or by texts.

One run is enough if each of many canaries was included by a coin (`tasks.audit.bounds.one_run_bound`). The number of
guesses is fixed beforehand. Half of them state that the canaries with the highest scores were included, half that those
with the lowest scores were left out. A canary begins like any row and ends in invented words (Meeus et al. 2025): the
beginning makes it take part like a row, and the end cannot get into a text from anywhere else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tasks.audit.bounds import one_run_bound, right_guesses
from tasks.private.nearest.search import rank
from tasks.private.voting.ballot import Ballot, Candidates

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Embedder

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
        words.add("".join(secrets.choice(_VOWELS if index % 2 else _CONSONANTS) for index in range(_LETTERS)))
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

    `others`: the other rows (text, label) that took part. `scale`: counts of one vote; `votes`: Q. `fit` trains a
    language model on texts and returns its likelihood of a text.
    """

    texts: pd.DataFrame
    releases: Sequence[pd.DataFrame]
    canaries: Sequence[Canary]
    others: Sequence[tuple[str, str]]
    embedder: Embedder
    scale: int
    votes: int
    fit: Callable[[Sequence[str]], Callable[[str], float]]


def attack_run(evidence: Evidence, guesses: int, delta: float, confidence: float) -> list[Guesses]:
    """Return the guesses of two attacks: by the noisy votes, and by a language model of the synthetic texts."""
    texts, canary_texts = evidence.texts["text"].tolist(), [canary.text for canary in evidence.canaries]
    included = np.array([canary.included for canary in evidence.canaries])
    # as in the run: candidates are embedded in batches, voting rows one at a time
    synthetic, canaries = evidence.embedder.embed(texts), evidence.embedder.embed_alone(canary_texts)
    likelihood = evidence.fit(texts)
    scores = {
        "noisy votes": vote_scores(evidence, synthetic, canaries),
        "likelihood of the texts": np.array([likelihood(text) for text in canary_texts]),
    }
    return [guess(what, of_each, included, guesses, delta, confidence) for what, of_each in scores.items()]


def guess(what: str, scores: Floats, included: Coins, guesses: int, delta: float, confidence: float) -> Guesses:
    """Return the conclusions from scores, which are higher for canaries that seem to have taken part."""
    from sklearn.metrics import roc_auc_score

    correct = right_guesses(scores, included, guesses)
    bound = one_run_bound(len(scores), guesses, correct, delta, confidence)
    return Guesses(what, guesses, correct, bound, float(roc_auc_score(included, scores)))


def vote_scores(evidence: Evidence, synthetic: NDArray[np.float32], canaries: NDArray[np.float32]) -> Floats:
    """Return the estimated share of each canary's votes in the releases, roughly between 0 and 1.

    The attacker knows all rows but the coins. It subtracts the votes of the other rows and projects the rest on every
    canary's clean votes. Overlap among canaries is separated by linear regression with the noise's variance, which is
    estimated from the part that no canary explains.
    """
    labels = [canary.label for canary in evidence.canaries]
    ballot = Ballot(canaries, labels, evidence.votes)
    other_vectors = evidence.embedder.embed_alone([text for text, _ in evidence.others])
    others = Ballot(other_vectors, [label for _, label in evidence.others], evidence.votes)
    texts = evidence.texts.reset_index(drop=True)
    positions = texts.reset_index().set_index("sample_id")["index"]
    number = len(labels)
    gram, part = np.zeros((number, number)), np.zeros(number)
    power, bins = 0.0, 0
    for release in evidence.releases:
        voted = positions.loc[release["sample_id"]].to_numpy()
        ids = release["sample_id"].to_numpy(np.int64)
        candidates = Candidates(ids, texts["label"].to_numpy(str)[voted], synthetic[voted])
        own = votes_of_each(ballot, candidates).reshape(number, -1)
        counts = release[["near", "far"]].to_numpy(np.float64) / evidence.scale
        rest = (counts - votes_of_each(others, candidates).sum(axis=0)).ravel() - own.sum(axis=0) / 2
        gram += own @ own.T
        part += own @ rest
        power, bins = power + float(rest @ rest), bins + len(rest)
    values, vectors = np.linalg.eigh(gram)
    usable = values > 1e-9 * max(values.max(), 1.0)
    along = vectors.T @ part
    explained = float((along[usable] ** 2 / values[usable]).sum())
    noise = max(power - explained, 0.0) / max(bins - int(usable.sum()), 1)
    # 1/4 is the variance of a coin; the small term prevents division by zero for indistinguishable canaries
    shrunk = along / (values + 4 * noise + 1e-9 * max(values.max(), 1.0))
    return np.asarray(0.5 + vectors @ shrunk)


def votes_of_each(ballot: Ballot, candidates: Candidates) -> Floats:
    """Return the votes of each row for every candidate without noise, in votes, shape (rows, n, 2)."""
    state, order = rank(ballot, candidates), np.argsort(candidates.ids, kind="stable")
    votes = np.zeros((len(ballot.labels), len(candidates.ids), 2))
    weights = 0.5 ** np.arange(ballot.votes)
    for side, ids in enumerate((state.near_ids, state.far_ids)):
        rows, ranks = np.nonzero(ids >= 0)
        positions = order[np.searchsorted(candidates.ids[order], ids[rows, ranks])]
        votes[rows, positions, side] += weights[ranks]
    return votes
