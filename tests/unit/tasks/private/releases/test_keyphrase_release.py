"""The sums of DP-KPS: no document adds more than is accounted for, and the kernel is the right one."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ArtifactError, ConfigError
from tasks.accounting.keyphrases import KeyphraseNoise, PartPrivacy, calibrate_part
from tasks.private.releases.keyphrase_release import (
    Frequencies,
    NoisySums,
    clean_density,
    clean_vocabulary,
    document_features,
    noisy_density,
    noisy_vocabulary,
)

SETTINGS = ("gaussian", "pure", "paper")
SIZE, CLASSES, DIMENSION = 12, 3, 6


def noise_of(part: str, setting: str, **sizes: int) -> KeyphraseNoise:
    return calibrate_part(PartPrivacy(part, 2.0, setting=setting, **sizes))  # type: ignore[arg-type]


def length(moved: np.ndarray, noise: KeyphraseNoise) -> float:
    steps = np.linalg.norm(moved) if noise.gaussian else np.abs(moved).sum()
    return float(steps) / noise.steps


def frequencies_of(noise: KeyphraseNoise, seed: int = 0) -> Frequencies:
    rng, number = np.random.default_rng(seed), noise.privacy.frequencies
    if noise.privacy.setting == "paper":
        return Frequencies(rng.standard_normal((2 * number, DIMENSION)), rng.uniform(0, 2 * np.pi, 2 * number))
    return Frequencies(rng.standard_normal((number, DIMENSION)))


@settings(deadline=None, max_examples=60)
@given(
    documents=st.lists(st.lists(st.integers(-2, SIZE + 2), max_size=15), max_size=6),
    setting=st.sampled_from(SETTINGS),
    terms=st.integers(1, 6),
)
def test_taking_a_document_away_moves_the_vocabulary_no_further_than_stated(
    documents: list[list[int]], setting: str, terms: int
) -> None:
    noise = noise_of("vocabulary", setting, terms=terms)
    whole = clean_vocabulary(documents, SIZE, noise).sums
    for place in range(len(documents)):
        without = clean_vocabulary(documents[:place] + documents[place + 1 :], SIZE, noise).sums
        assert length(whole - without, noise) <= noise.sensitivity


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    setting=st.sampled_from(SETTINGS),
    width=st.integers(1, 8),
    spread=st.sampled_from([0.0, 1.0, 1e6]),
)
def test_taking_a_document_away_moves_the_density_no_further_than_stated(
    seed: int, setting: str, width: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    noise = noise_of("density", setting, frequencies=width, keyphrases=4)
    public = frequencies_of(noise, seed)
    vectors = [spread * rng.standard_normal((rng.integers(0, 9), DIMENSION)) for _ in range(5)]
    features = np.array([document_features(one, public, noise.privacy) for one in vectors])
    classes = rng.integers(-1, CLASSES + 1, 5).tolist()
    whole = clean_density(features, classes, CLASSES, noise).sums
    for place in range(5):
        kept = [other for other in range(5) if other != place]
        without = clean_density(features[kept], [classes[one] for one in kept], CLASSES, noise).sums
        assert length(whole - without, noise) <= noise.sensitivity


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_document_that_cannot_be_counted_adds_nothing_and_fails_nothing(setting: str) -> None:
    noise = noise_of("density", setting, frequencies=2)
    good = np.full(4, 0.5)
    odd = [np.full(4, np.nan), np.array([np.inf, 0, 0, 0]), np.full(4, 1e308)]
    features = np.array([good, *odd, good])
    with warnings.catch_warnings(action="error"):
        sums = clean_density(features, [0, 0, 1, 2, 7], CLASSES, noise).sums
        vectors = np.array([[np.inf, 1, 1, 1, 1, 1], [np.nan] * 6])
        assert not np.isfinite(document_features(vectors, frequencies_of(noise), noise.privacy)).all()
    assert np.array_equal(sums, [[0.5 * noise.steps] * 4, [0] * 4, [0] * 4])


def test_a_term_counts_once_per_document_and_only_the_first_ones_count() -> None:
    noise = noise_of("vocabulary", "pure", terms=2)
    assert clean_vocabulary([[3, 3, 5, 7]], SIZE, noise).sums[0].tolist() == [0, 0, 0, 1, 0, 1] + [0] * 6
    printed = noise_of("vocabulary", "paper", terms=2)
    assert clean_vocabulary([[3, 3, 5, 7]], SIZE, printed).sums[0].tolist() == [0, 0, 0, 2] + [0] * 8
    gaussian = noise_of("vocabulary", "gaussian", terms=2)
    assert clean_vocabulary([[99, 3]], SIZE, gaussian).sums[0].tolist() == [0, 0, 0, gaussian.steps] + [0] * 8


@pytest.mark.parametrize("paired", [True, False])
def test_the_features_estimate_the_gaussian_kernel(paired: bool) -> None:
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((20_000, DIMENSION))
    public = Frequencies(weights, None if paired else rng.uniform(0, 2 * np.pi, len(weights)))
    one, other = rng.standard_normal(DIMENSION) / 3, rng.standard_normal(DIMENSION) / 3
    first, second = public.features(np.array([one, other]))
    assert first @ second / len(weights) == pytest.approx(np.exp(-np.sum((one - other) ** 2)), abs=0.03)
    if paired:
        assert np.linalg.norm(first) == pytest.approx(np.sqrt(len(weights)), rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_number_gets_its_own_noise_of_the_right_width(setting: str) -> None:
    noise = noise_of("vocabulary", setting, terms=4)
    many = noisy_vocabulary([], 20_000, noise).sums[0].astype(float)
    expected = noise.scale_int * (1.0 if noise.gaussian else np.sqrt(2.0))
    if not noise.gaussian:
        p = np.exp(-1 / noise.scale_int)
        expected = np.sqrt(2 * p) / (1 - p)
    assert many.std() == pytest.approx(expected, rel=0.05)
    assert abs(np.corrcoef(many[1:], many[:-1])[0, 1]) < 0.04


def test_two_releases_differ_under_the_same_seeds() -> None:
    noise = noise_of("density", "pure", frequencies=50)
    features = np.zeros((2, 100))
    np.random.seed(0)
    first = noisy_density(features, [0, 1], CLASSES, noise)
    np.random.seed(0)
    assert not np.array_equal(first.sums, noisy_density(features, [0, 1], CLASSES, noise).sums)
    assert first.sums.shape == (CLASSES, 100)


def test_a_release_is_read_back_and_a_damaged_one_refused() -> None:
    released = noisy_density(np.zeros((1, 6)), [0], 2, noise_of("density", "gaussian", frequencies=3))
    back = NoisySums.from_bytes(released.to_bytes())
    assert np.array_equal(back.sums, released.sums)
    assert (back.steps, back.scale_int) == (released.steps, released.scale_int)
    with pytest.raises(ArtifactError, match="damaged"):
        NoisySums.from_bytes(released.to_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match="damaged"):
        NoisySums.from_bytes(b"")


def test_clean_sums_cannot_be_stored() -> None:
    clean: Any = clean_vocabulary([[1]], SIZE, noise_of("vocabulary", "pure"))
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(clean)
    assert "1" not in repr(clean)


def test_noise_of_the_other_part_is_refused() -> None:
    with pytest.raises(ConfigError, match="vocabulary"):
        noisy_vocabulary([], SIZE, noise_of("density", "pure"))
    with pytest.raises(ConfigError, match="features of each document"):
        noisy_density(np.zeros((1, 5)), [0], 1, noise_of("density", "pure", frequencies=3))
    with pytest.raises(ConfigError, match="density"):
        noisy_density(np.zeros((1, 6)), [0], 1, noise_of("vocabulary", "pure"))


@pytest.mark.parametrize("setting", ["gaussian", "pure"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_features_longer_than_the_sensitivity_add_nothing_whatever_computed_them(setting: str, adjacency: str) -> None:
    noise = noise_of("density", setting, frequencies=8, adjacency=adjacency)  # type: ignore[arg-type]
    allowed = noise.sensitivity / (2.0 if adjacency == "replace_one" else 1.0)
    row = np.zeros(noise.privacy.width)
    for part, counts in ((0.99, True), (1.01, False), (1.9, False)):
        row[0] = part * allowed
        assert bool(clean_density([row], [0], 1, noise).sums.any()) is counts
