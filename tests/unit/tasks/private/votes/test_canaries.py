"""Attacks on one run with canaries: statistics by another road; sound noise passes, missing noise and leaks do not."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from connectors.embedders.registry import open_embedder
from connectors.models.ngram.counts import fit_likelihood
from tasks.attacks.bounds import one_run_bound, one_run_chance
from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.canaries import (
    RARE_WORDS,
    Canary,
    Evidence,
    Guesses,
    attack_run,
    guess,
    make_canaries,
)
from tasks.private.votes.count import noisy_votes
from tasks.private.votes.promise import VotePrivacy, calibrate
from tests.support.data.golden import VECTORS
from tests.support.paths import ROOT

DATA = ROOT / "connectors" / "data" / "support_desk"
EMBEDDER = open_embedder("hashing", "", {"dimension": 256})
CANARIES, GUESSES, VOTES, RELEASES, DELTA = 600, 250, 8, 4, 1e-5


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, str]]:
    actual = pd.read_parquet(DATA / "private.parquet")
    return list(zip(actual["text"], actual["label"], strict=True))


def evidence_of(
    epsilon: float, canaries: Sequence[Canary], rows: list[tuple[str, str]], leaked: bool
) -> Evidence:
    """A run without its language models: test texts are the candidates, canaries and rows vote."""
    texts = pd.read_parquet(DATA / "test.parquet")[["text", "label"]]
    if leaked:
        extra = pd.DataFrame(
            [(f"Hello, {entry.text} Bye", entry.label) for entry in canaries if entry.included]
        )
        texts = pd.concat([texts, extra.set_axis(["text", "label"], axis=1)], ignore_index=True)
    texts["sample_id"] = np.arange(len(texts))
    noise = calibrate(VotePrivacy(epsilon, DELTA, RELEASES, VOTES))
    voters = [*rows, *((entry.text, entry.label) for entry in canaries if entry.included)]
    ballot = Ballot(
        EMBEDDER.embed_alone([text for text, _ in voters]), [label for _, label in voters], VOTES
    )
    vectors, releases = EMBEDDER.embed(texts["text"].tolist()), []
    for part in range(1, RELEASES + 1):
        voted = texts[: 300 * part // RELEASES]
        ids, labels = voted["sample_id"].to_numpy(np.int64), voted["label"].to_numpy(str)
        noisy = noisy_votes(ballot, Candidates(ids, labels, vectors[: len(voted)]), noise)
        releases.append(
            pd.DataFrame({"sample_id": noisy.ids, "near": noisy.near, "far": noisy.far})
        )
    return Evidence(texts, releases, canaries, rows, EMBEDDER, noise, fit_likelihood)


def attacked(
    epsilon: float, rows: list[tuple[str, str]], leaked: bool = False
) -> dict[str, Guesses]:
    evidence = evidence_of(epsilon, make_canaries(rows, CANARIES), rows, leaked)
    return {entry.what: entry for entry in attack_run(evidence, GUESSES, 1 - 0.05 / 2)}


def test_the_chance_of_so_many_right_guesses_is_that_of_the_golden_vectors() -> None:
    for row in VECTORS["audit"]["one_run_p_value"]["rows"]:
        actual = one_run_chance(row["m"], row["guesses"], row["correct"], row["eps"], row["delta"])
        assert actual == pytest.approx(row["p_value"], abs=1e-8)


def test_without_delta_the_bound_is_where_the_binomial_tail_meets_the_doubt() -> None:
    for right in (80, 100):
        bound = one_run_bound(1000, 100, right, 0.0, 0.95)
        each = math.exp(bound) / (1 + math.exp(bound))
        assert binom.sf(right - 1, 100, each) == pytest.approx(0.05, abs=1e-5)
    assert one_run_bound(1000, 100, 50, 0.0, 0.95) == 0.0
    assert one_run_bound(1000, 100, 0, 1e-5, 0.95) == 0.0


@pytest.mark.statistical
def test_the_bound_of_a_mechanism_that_is_as_weak_as_it_says_stays_below() -> None:
    """Randomised response of epsilon 1, the worst there is: the bound is above the truth once in 10^6 audits."""
    rng = np.random.default_rng()
    included = rng.random(2000) < 0.5
    answers = included ^ (rng.random(2000) > math.e / (1 + math.e))
    result = guess("answers", answers + 1e-9 * rng.random(2000), included, 1500, 0.0, 1 - 1e-6)
    assert 0.3 < result.bound <= 1.0


@pytest.mark.statistical
def test_a_sound_run_passes_and_its_texts_reveal_nothing(rows: list[tuple[str, str]]) -> None:
    results = attacked(4.0, rows)
    assert all(entry.bound <= 4.0 for entry in results.values())
    assert 0.55 < results["noisy votes"].auc < 0.85, (
        "the votes do tell something: epsilon is 4, not 0"
    )
    likelihood = results["likelihood of the texts"]
    assert abs(likelihood.auc - 0.5) < 5 * 0.0236, "standard error of the AUC of 300 against 300"


def test_votes_without_noise_give_every_canary_away(rows: list[tuple[str, str]]) -> None:
    result = attacked(math.inf, rows)["noisy votes"]
    assert result.auc > 0.999
    assert result.bound > 4.0


def test_texts_that_repeat_canaries_give_them_away(rows: list[tuple[str, str]]) -> None:
    result = attacked(4.0, rows, leaked=True)["likelihood of the texts"]
    assert result.auc > 0.99
    assert result.bound > 4.0


def test_guesses_are_the_most_extreme_scores() -> None:
    included = np.array([True] * 10 + [False] * 10)
    scores = np.concatenate([np.linspace(1, 2, 10), np.linspace(-2, -1, 10)])
    scores[9], scores[19] = -3.0, 3.0
    result = guess("scores", scores, included, 4, 0.0, 0.95)
    assert (result.guesses, result.correct) == (4, 2)


def test_canaries_begin_like_rows_of_their_class_end_in_words_of_their_own_and_have_fair_coins() -> (
    None
):
    rows = [
        (f"The router of customer {number} lost its signal since Tuesday", "fault")
        for number in range(30)
    ]
    rows += [("网络连接中断了很久没有人回答", "bill")] * 30
    canaries = make_canaries(rows, 1200)
    known = {word for text, _ in rows for word in text.split()}
    ends = [canary.text.split()[-RARE_WORDS:] for canary in canaries]
    for canary, end in zip(canaries, ends, strict=True):
        begun = canary.text.removesuffix(" ".join(end)).strip()
        assert begun
        assert any(text.startswith(begun) and label == canary.label for text, label in rows)
        assert not known & set(end)
    assert len({word for end in ends for word in end}) == 1200 * RARE_WORDS
    assert sum(canary.label == "fault" for canary in canaries) == 600
    assert binom.cdf(sum(canary.included for canary in canaries), 1200, 0.5) == pytest.approx(
        0.5, abs=0.4999995
    )
    assert [canary.included for canary in canaries] != [
        canary.included for canary in make_canaries(rows, 1200)
    ]
