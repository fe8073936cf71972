"""Densities of sequences against exact kernels: unbiased, as far off as theory says, and padding changes nothing."""

import numpy as np
import pytest

from connectors.interfaces.errors import ConfigError
from tasks.guidance.sequences import estimates
from tasks.private.phrases.count import features_at
from tasks.private.phrases.features import DensityMember, Shape, members_of, windows

TERMS, DIMENSION = 12, 5


def vectors(seed: int = 0) -> np.ndarray:
    result = np.random.default_rng(seed).standard_normal((TERMS, DIMENSION))
    return np.asarray(result / np.linalg.norm(result, axis=1, keepdims=True))


def shape(**changes: object) -> Shape:
    usual = {"sampling": "iterative", "length": 4, "frequencies": 200, "block": 0.5}
    return Shape(**(usual | changes))


def kernel(block: float, left: list[int], other: list[int], held: int) -> float:
    """Return exp(-|x - y|^2) of sequences, missing phrases as zeros."""
    rows = np.sqrt(block) * vectors()
    padded = [
        np.concatenate([rows[sequence].ravel(), np.zeros((held - len(sequence)) * DIMENSION)])
        for sequence in (left, other)
    ]
    return float(np.exp(-((padded[0] - padded[1]) ** 2).sum()))


def estimated(member: DensityMember, document: list[int], prefix: list[int], term: int) -> float:
    sums = features_at(member.of(np.array([document])), member.phases)
    return float(estimates(member, sums, np.array([prefix], dtype=np.int64), len(prefix))[0, term])


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "as printed"])
def test_the_estimate_is_unbiased_and_its_error_follows_the_theory(paired: bool) -> None:
    frequencies, document, prefix, term = 50, [1, 2, 3, 4], [5], 7
    expected = shape(frequencies=frequencies, paired=paired)
    exact = kernel(0.5, document[:2], [5, 7], 2)
    draws = 1500
    result = [
        estimated(members_of(expected, vectors(), seed)[0], document[:2], prefix, term)
        for seed in range(draws)
    ]
    squared = -np.log(exact)
    if paired:
        variance = (1 - exact**2) ** 2 / 2 / frequencies
    else:
        variance = (1 + np.exp(-4 * squared) / 2 - exact**2) / (2 * frequencies)
    assert abs(np.mean(result) - exact) < 5 * np.sqrt(variance / draws)
    assert np.std(result) == pytest.approx(np.sqrt(variance), rel=0.15)


def test_chances_after_a_padded_prefix_are_those_without_padding() -> None:
    """Theorem A.1 through the features: a density of longer sequences ranks phrases as one of the right length does."""
    expected = shape(frequencies=20_000)
    members, documents = members_of(expected, vectors(), 0), [[1, 2, 3, 4], [5, 6, 7, 8]]
    chances = []
    for member in members:
        held = [document[: member.places] for document in documents]
        sums = features_at(member.of(np.array(held)), None).sum(axis=0, keepdims=True)
        result = estimates(member, sums, np.array([[1]]), 1)[0].astype(np.float64)
        chances.append(result / result.sum())
    assert np.abs(chances[0] - chances[1]).max() < 0.01


@pytest.mark.parametrize(
    ("length", "members"),
    [(10, (2, 4, 8, 10)), (8, (2, 4, 8)), (5, (2, 4, 5)), (2, (2,)), (1, (1,))],
    ids=str,
)
def test_the_logarithmic_ensemble_never_pads_more_than_half(
    length: int, members: tuple[int, ...]
) -> None:
    expected = shape(length=length)
    assert expected.members == members
    for phrases in range(1, length + 1):
        held = expected.members[expected.member_for(phrases)]
        assert phrases <= held <= max(2, 2 * (phrases - 1)) or held == length


@pytest.mark.parametrize(
    ("changes", "blocks"),
    [
        ({"sampling": "independent"}, [1.0]),
        ({"length": 10}, [2 / 2, 2 / 4, 2 / 8, 2 / 10]),
        ({"length": 1}, [1.0]),
        ({"block": 3.0, "length": 10}, [3.0] * 4),
        ({"length": 4, "ensemble": "linear"}, [1.0, 1 / 2, 1 / 3, 1 / 4]),
    ],
    ids=["independent", "iterative", "one phrase", "fixed", "linear"],
)
def test_the_bandwidth_is_that_of_appendix_a_2(
    changes: dict[str, object], blocks: list[float]
) -> None:
    expected = shape(**({"block": None} | changes))
    assert [expected.block_of(phrases) for phrases in expected.members] == blocks
    fixed = [
        members_of(shape(**(changes | {"block": block})), vectors(), 0)[at]
        for at, block in enumerate(blocks)
    ]
    for member, alone in zip(members_of(expected, vectors(), 0), fixed, strict=True):
        assert np.array_equal(member.angles, alone.angles)


def test_a_documents_sequences_begin_at_each_phrase_and_go_round() -> None:
    assert windows([3, 5, 9], 2).tolist() == [[3, 5], [5, 9], [9, 3]]
    assert windows([3], 4).tolist() == [[3, 3, 3, 3]]
    assert windows([], 4).shape == (0, 4)


def test_frequencies_hang_on_the_seed_and_a_term_without_a_vector_is_refused() -> None:
    first, again, other = (members_of(shape(), vectors(), seed)[1].angles for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    without = vectors()
    without[3] = 0
    with pytest.raises(ConfigError, match="no vector"):
        members_of(shape(), without, 0)
