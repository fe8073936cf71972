"""Drawing sequences: chances as the estimates, repeats by sampler, uniform where nothing is known."""

import numpy as np
import pytest

from connectors.interfaces.errors import ConfigError
from tasks.guidance.sequences import draw, draw_sequences, estimates
from tasks.private.phrases.count import features_at
from tasks.private.phrases.features import SequenceChoice, Shape, members_of, windows

TERMS = 9
ALL = SequenceChoice(0, 1.0)


def unit(rows: int, wide: int = 6) -> np.ndarray:
    result = np.random.default_rng(3).standard_normal((rows, wide))
    return np.asarray(result / np.linalg.norm(result, axis=1, keepdims=True))


def shape(sampling: str = "iterative", paired: bool = True, length: int = 3) -> Shape:
    return Shape(sampling, length, 40, 0.7, paired)


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "as printed"])
def test_estimates_are_the_products_of_sums_and_features(paired: bool) -> None:
    requested = shape(paired=paired)
    member = members_of(requested, unit(TERMS), 0)[1]
    sums = np.random.default_rng(0).standard_normal((2, requested.features))
    prefixes = np.array([[1, 4], [7, 2]])
    result = estimates(member, sums, prefixes, 2)
    for row, prefix in enumerate(prefixes):
        for term in range(TERMS):
            features = features_at(member.of(np.array([[*prefix, term]])), member.phases)[0]
            count = requested.features / (1 if not paired else 2)
            assert result[row, term] == pytest.approx(float(sums[row] @ features) / count, abs=1e-4)


def test_phrases_are_drawn_in_proportion_to_their_estimates() -> None:
    scores = np.tile(np.array([4.0, 2.0, -5.0, 0.0, 1.0], dtype=np.float32), (40_000, 1))
    drawn = draw(scores, ALL, np.random.default_rng(0))
    share = np.bincount(drawn, minlength=5) / len(drawn)
    assert np.abs(share - np.array([4, 2, 0, 0, 1]) / 7).max() < 0.02
    sharp = draw(scores, SequenceChoice(0, 2.0), np.random.default_rng(0))
    assert (
        np.abs(np.bincount(sharp, minlength=5) / len(sharp) - np.array([16, 4, 0, 0, 1]) / 21).max()
        < 0.02
    )
    top = draw(scores, SequenceChoice(2, 1.0), np.random.default_rng(0))
    assert set(top.tolist()) == {0, 1}


def test_where_no_estimate_is_above_zero_every_allowed_phrase_is_equally_likely() -> None:
    scores = np.tile(np.array([-1.0, -2.0, -np.inf, 0.0], dtype=np.float32), (9000, 1))
    share = np.bincount(draw(scores, ALL, np.random.default_rng(0)), minlength=4) / 9000
    assert share[2] == 0
    assert np.abs(share[[0, 1, 3]] - 1 / 3).max() < 0.03


@pytest.mark.parametrize("sampling", ["independent", "iterative"])
def test_sequences_follow_their_class_repeat_no_phrase_and_can_be_drawn_again(
    sampling: str,
) -> None:
    requested, vectors = shape(sampling), np.eye(TERMS)
    requested = Shape(requested.sampling, 3, 3000, 4.0 if sampling == "independent" else 1.5, True)
    members = members_of(requested, vectors, 0)
    documents = ([0, 1, 2], [4, 5, 6])
    sums = np.stack(
        [
            np.concatenate(
                [
                    30 * features_at(entry.of(windows(phrases, entry.places)), None).mean(axis=0)
                    for entry in members
                ]
            )
            for phrases in documents
        ]
    )
    first = draw_sequences(
        requested, members, sums, 60, SequenceChoice(3, 1.0), np.random.default_rng(0)
    )
    again = draw_sequences(
        requested, members, sums, 60, SequenceChoice(3, 1.0), np.random.default_rng(0)
    )
    assert np.array_equal(first, again)
    assert first.shape == (120, 3)
    assert all(len(set(row)) == 3 for row in first.tolist())
    for number, phrases in enumerate(documents):
        of_class = first[60 * number : 60 * (number + 1)]
        assert np.isin(of_class, phrases).mean() > 0.8
    assert len(np.unique(first[:60], axis=0)) > 1


def test_independent_phrases_are_drawn_from_the_whole_density_and_may_repeat() -> None:
    """Section 2 (ii) and appendix A.2: L i.i.d. samples of the multinomial distribution over all terms."""
    requested = Shape("independent", 5, 2000)
    members = members_of(requested, np.eye(TERMS), 0)
    sums = 10 * features_at(members[0].of(np.array([[0], [0], [1]])), None).mean(
        axis=0, keepdims=True
    )
    count = 8_000
    drawn = draw_sequences(
        requested, members, sums, count, SequenceChoice(repeats=True), np.random.default_rng(0)
    )
    scores = np.maximum(estimates(members[0], sums, np.zeros((1, 0), dtype=np.int64), 0)[0], 0)
    expected = scores / scores.sum()
    for position in range(requested.length):
        share = np.bincount(drawn[:, position], minlength=TERMS) / count
        assert np.abs(share - expected).max() < 0.033
    pairs = np.zeros((TERMS, TERMS))
    np.add.at(pairs, (drawn[:, 0], drawn[:, 1]), 1 / count)
    assert np.abs(pairs - np.outer(expected, expected)).max() < 0.033, (
        "a phrase does not depend on the one before"
    )
    assert any(len(set(row)) < requested.length for row in drawn.tolist())


def test_an_iterative_sequence_repeats_a_phrase_only_on_request() -> None:
    requested = Shape("iterative", 4, 400)
    members = members_of(requested, np.eye(TERMS), 0)
    once = np.concatenate(
        [features_at(entry.of(windows([2, 2], entry.places)), None)[0] for entry in members]
    )[None]
    for repeats in (False, True):
        choice = SequenceChoice(top=3, repeats=repeats)
        drawn = draw_sequences(requested, members, 20 * once, 50, choice, np.random.default_rng(0))
        assert any(len(set(row)) < 4 for row in drawn.tolist()) is repeats


def test_more_phrases_than_terms_are_refused_unless_they_may_repeat() -> None:
    requested = shape(length=10)
    members = members_of(requested, unit(4), 0)
    sums = np.zeros((1, 4 * requested.features))
    with pytest.raises(ConfigError, match="method.length"):
        draw_sequences(requested, members, sums, 1, ALL, np.random.default_rng(0))
    assert draw_sequences(
        requested, members, sums, 1, SequenceChoice(repeats=True), np.random.default_rng(0)
    ).shape == (
        1,
        10,
    )
