"""Attacks on one whole run with canaries: their membership, by votes or by texts.

One run is enough if each of many canaries was included by a coin (Steinke, Nasr and Jagielski 2023): under
(epsilon, delta)-DP nobody guesses many coins right. The number of guesses is fixed beforehand. Half of them state that
the canaries with the highest scores were included, half that those with the lowest scores were left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tasks.audit.pipeline_evidence import Evidence, SeenVote
from tasks.private.nearest.search import rank
from tasks.private.voting.ballot import Ballot, Candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Coins = NDArray[np.bool_]

LOW_RATE: Final = 0.01
"""False positive rate at which the true positive rate is reported."""
INTERVAL: Final = 0.95
_RESAMPLES: Final = 2000
_POINTS: Final = 60


@dataclass(frozen=True, slots=True)
class Guesses:
    """The guesses of one attack about coins.

    `correct` of `guesses` are right, which proves an epsilon of at least `bound`. `auc`: probability that an included
    canary has the higher score, with its 95 % interval. `hits`: share of detected included canaries at a false positive
    rate of 1 %. `curve`: (false, true) positive rates.
    """

    what: str
    guesses: int
    correct: int
    bound: float
    auc: float
    interval: tuple[float, float]
    hits: float
    curve: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class MembershipQuestion:
    """The question to an attack: coins, number of guesses, delta, confidence."""

    included: Coins
    guesses: int
    delta: float
    confidence: float


def attack_run(evidence: Evidence, scale: int, votes: int, question: MembershipQuestion) -> list[Guesses]:
    """Return the guesses of three attacks on a run.

    They use the noisy votes, a language model of the texts, and the nearest text. `scale`: counts of one vote; `votes`:
    Q. The last two attacks use nothing but the synthetic texts.
    """
    texts = evidence.texts["text"].tolist()
    # as in the run: candidates are embedded in batches, voting rows one at a time
    synthetic, canaries = evidence.embedder.embed(texts), evidence.embedder.embed_alone(evidence.canary_texts)
    by_votes = vote_scores(evidence.seen(synthetic, scale), *evidence.ballots(canaries, votes))
    return [
        guess("noisy votes", by_votes, question),
        guess("likelihood of the texts", likelihood_scores(evidence, texts), question),
        guess("nearest text", neighbour_scores(canaries, synthetic), question),
    ]


def guess(what: str, scores: Floats, coins: MembershipQuestion) -> Guesses:
    """Return the conclusions from scores.

    Scores are higher for canaries that seem to have taken part.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    order = np.argsort(scores, kind="stable")
    out, inside = order[: coins.guesses // 2], order[len(order) - (coins.guesses - coins.guesses // 2) :]
    correct = int((~coins.included[out]).sum() + coins.included[inside].sum())
    bound = one_run_bound(len(scores), coins.guesses, correct, coins.delta, coins.confidence)
    false, true, _ = roc_curve(coins.included, scores, drop_intermediate=True)
    points = np.unique(np.linspace(0, len(false) - 1, _POINTS).round().astype(int))
    return Guesses(
        what=what,
        guesses=coins.guesses,
        correct=correct,
        bound=bound,
        auc=float(roc_auc_score(coins.included, scores)),
        interval=auc_interval(scores, coins.included),
        hits=float(true[false <= LOW_RATE].max()),
        curve=tuple((float(false[point]), float(true[point])) for point in points),
    )


def one_run_bound(canaries: int, guesses: int, correct: int, delta: float, confidence: float) -> float:
    """Return the epsilon that this many correct guesses about coins prove at least.

    Never below 0. The largest epsilon under which their probability is below the remaining doubt, to 1e-6.
    """
    doubt, low, high = 1 - confidence, 0.0, 1.0
    if one_run_chance(canaries, guesses, correct, 0.0, delta) > doubt:
        return 0.0
    while one_run_chance(canaries, guesses, correct, high, delta) < doubt and high < 64:
        low, high = high, 2 * high
    while high - low > 1e-6:
        middle = (low + high) / 2
        if one_run_chance(canaries, guesses, correct, middle, delta) < doubt:
            low = middle
        else:
            high = middle
    return low


def one_run_chance(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the largest probability of `correct` guesses under (epsilon, delta)-DP.

    Binomial tail at e^epsilon / (1 + e^epsilon), and 2 m delta times the steepest mean of the terms below it.
    """
    from scipy.stats import binom

    success = 1 / (1 + math.exp(-epsilon))
    below = binom.pmf(np.arange(correct - 1, -1, -1), guesses, success)
    steepest = (np.cumsum(below) / np.arange(1, correct + 1)).max(initial=0.0)
    return min(1.0, float(binom.sf(correct - 1, guesses, success)) + 2 * canaries * delta * float(steepest))


def auc_interval(scores: Floats, included: Coins) -> tuple[float, float]:
    """Return the 95 % interval of the AUC.

    scipy's percentile bootstrap, stratified by inclusion.
    """
    from scipy.stats import bootstrap, rankdata

    def auc(inside: Floats, out: Floats) -> float:
        ranks = rankdata(np.concatenate([inside, out]))[: len(inside)]
        return float((ranks.sum() - len(inside) * (len(inside) + 1) / 2) / (len(inside) * len(out)))

    result = bootstrap(
        (scores[included], scores[~included]),
        auc,
        n_resamples=_RESAMPLES,
        vectorized=False,
        confidence_level=INTERVAL,
        method="percentile",
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def vote_scores(seen: Sequence[SeenVote], others: Ballot, canaries: Ballot) -> Floats:
    """Return the estimated share of each canary's votes in the releases.

    Roughly between 0 and 1. The attacker knows all rows but the coins. It subtracts the votes of `others` and projects
    the rest on every canary's clean votes. Overlap among canaries is separated by linear regression with the noise's
    variance, which is estimated from the part that no canary explains.
    """
    number = len(canaries.labels)
    gram, part = np.zeros((number, number)), np.zeros(number)
    power, bins = 0.0, 0
    for vote in seen:
        baseline = votes_of_each(others, vote.candidates).sum(axis=0)
        own = votes_of_each(canaries, vote.candidates).reshape(number, -1)
        rest = (vote.counts - baseline).ravel() - own.sum(axis=0) / 2
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
    """Return the votes of each row for every candidate without noise.

    In votes, shape (rows, n, 2).
    """
    state, order = rank(ballot, candidates), np.argsort(candidates.ids, kind="stable")
    votes = np.zeros((len(ballot.labels), len(candidates.ids), 2))
    weights = 0.5 ** np.arange(ballot.votes)
    for side, ids in enumerate((state.near_ids, state.far_ids)):
        rows, ranks = np.nonzero(ids >= 0)
        positions = order[np.searchsorted(candidates.ids[order], ids[rows, ranks])]
        votes[rows, positions, side] += weights[ranks]
    return votes


def likelihood_scores(evidence: Evidence, texts: Sequence[str]) -> Floats:
    """Return the mean log-likelihood per word of each canary.

    Under a language model of the synthetic texts.
    """
    score = evidence.fit(texts)
    return np.array([score(text) for text in evidence.canary_texts])


def neighbour_scores(canaries: NDArray[np.float32], synthetic: NDArray[np.float32]) -> Floats:
    """Return the cosine similarity of each canary to the nearest synthetic text."""
    mine, theirs = (_unit(vectors.astype(np.float64)) for vectors in (canaries, synthetic))
    return np.asarray((mine @ theirs.T).max(axis=1))


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)
