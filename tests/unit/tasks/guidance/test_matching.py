"""Results of a density: expectations that noise does not dominate, diverse examples, sets that match."""

from typing import Any

import numpy as np
import pytest

from tasks.guidance.matching import Density, examples, expect, herd, tilt, tilted, witness
from tasks.private.density.features import body, counted, features_of

LABELS = ("a", "b")
WIDTH = 24


def world(rows: int = 50, texts: int = 200, seed: int = 0) -> tuple[Any, ...]:
    """Return texts and rows (vectors, labels): rows are shifted, along directions in which texts differ."""
    rng = np.random.default_rng(seed)
    spread = np.linspace(2, 0.1, WIDTH)
    centres, shift = 2 * rng.standard_normal((2, WIDTH)), spread * rng.standard_normal(WIDTH)
    labels, of_rows = np.repeat(LABELS, texts // 2), np.repeat(LABELS, rows)
    made = np.repeat(centres, texts // 2, axis=0) + spread * rng.standard_normal((texts, WIDTH))
    real = np.repeat(centres + shift, rows, axis=0) + spread * rng.standard_normal(
        (2 * rows, WIDTH)
    )
    return made, labels, real, of_rows


def density(real: Any, of_rows: Any, sigma: float, seed: int = 1) -> Density:
    features = features_of(real)
    sums = np.stack([features[of_rows == label].sum(axis=0) for label in LABELS])
    return Density(
        LABELS, sums + sigma * np.random.default_rng(seed).standard_normal(sums.shape), sigma
    )


def points_of(made: Any) -> Any:
    return body(features_of(made))


def true_means(real: Any, of_rows: Any) -> Any:
    points = points_of(real)
    return np.stack([points[of_rows == label].mean(axis=0) for label in LABELS])


def test_no_vector_has_features_longer_than_1_and_an_odd_one_has_none() -> None:
    rng = np.random.default_rng(0)
    odd = np.array([np.zeros(24), np.full(24, np.nan), np.full(24, np.inf), np.full(24, 1e200)])
    features = features_of(np.concatenate([1e3 * rng.standard_normal((240, 24)), odd]))
    assert features.shape == (244, 25)
    assert np.linalg.norm(features, axis=1).max() <= 1 + 1e-12
    assert not features[-4:].any()
    assert counted(features[:5].sum(axis=0)) == pytest.approx(5)


def test_without_noise_the_expected_means_come_to_those_of_the_rows_as_these_become_more() -> None:
    apart = []
    for rows in (50, 500, 5000):
        made, labels, real, of_rows = world(rows)
        result = expect(density(real, of_rows, 0.0), points_of(made), labels)
        assert result.rows == pytest.approx([rows, rows])
        apart.append(np.linalg.norm(result.means - true_means(real, of_rows)))
    assert apart[0] > 5 * apart[1] > 25 * apart[2]


@pytest.mark.parametrize(
    ("sigma", "of_noisy", "of_texts"),
    [(1.08, 1.5, 0.2), (3.73, 0.7, 0.7)],
    ids=["epsilon 4", "epsilon 1"],
)
def test_loud_noise_does_not_carry_expected_means_away(
    sigma: float, of_noisy: float, of_texts: float
) -> None:
    made, labels, real, of_rows = world()
    truth, points = true_means(real, of_rows), points_of(made)
    texts = np.stack([points[labels == label].mean(axis=0) for label in LABELS])
    errors = []
    for seed in range(20):
        released = density(real, of_rows, sigma, seed)
        raw = body(released.sums) / 50
        errors.append(
            [
                ((entry - truth) ** 2).sum()
                for entry in (expect(released, points, labels).means, raw, texts)
            ]
        )
    ours, noisy, none = np.mean(errors, axis=0)
    assert ours < of_noisy * noisy
    assert ours < of_texts * none


def test_a_class_without_texts_or_rows_disturbs_nobody() -> None:
    made, labels, real, of_rows = world()
    points = points_of(made)
    result = expect(density(real, of_rows, 1.0), points[labels == "a"], labels[labels == "a"])
    assert np.isfinite(result.of("a")).all()
    assert np.isnan(result.of("b")).all()
    empty = expect(density(real[of_rows == "a"], of_rows[of_rows == "a"], 1.0), points, labels)
    assert np.isfinite(empty.means).all()


def test_a_herd_lies_closer_to_its_target_than_chance_and_than_the_nearest_texts() -> None:
    made, labels, real, of_rows = world()
    points, target = points_of(made)[labels == "a"], true_means(real, of_rows)[0]
    herded, nearest = herd(points, target, 20), np.argsort(-(points @ target))[:20]
    rng = np.random.default_rng(0)
    chance = [rng.choice(len(points), 20, replace=False) for _ in range(20)]

    def apart(places: Any) -> float:
        return float(np.linalg.norm(points[places].mean(axis=0) - target))

    assert len(set(herded.tolist())) == 20
    assert apart(herded) < min(apart(nearest), *[apart(entry) for entry in chance])


@pytest.mark.parametrize("number", [1, 2, 3, 5, 8, 16, 17, 100])
def test_examples_are_never_good_and_bad_at_once_and_small_classes_keep_both(number: int) -> None:
    points = np.random.default_rng(number).standard_normal((number, 5))
    good, bad = examples(points, points.mean(axis=0), -points[:, 0], 8)
    assert len(set(good) | set(bad)) == len(good) + len(bad)
    assert len(good) == max(1, min(8, number - len(bad), max(4, number // 10)))
    assert len(bad) == min(8, max(number - 8, min(8, number) // 2))
    assert len(bad) >= min(number, 8) // 2


def test_good_examples_are_like_private_rows_and_bad_ones_what_there_is_too_much_of() -> None:
    made, labels, real, of_rows = world(texts=400)
    points, truth = points_of(made), true_means(real, of_rows)
    result = expect(density(real, of_rows, 1.08), points, labels)
    missing = witness(result, points, labels)
    for position, label in enumerate(LABELS):
        own = labels == label
        good, bad = examples(points[own], result.of(label), -missing[own], 8)
        ranks = (points[own] @ truth[position]).argsort().argsort() / (own.sum() - 1)
        expected = (
            points[own] @ (truth[position] - points[own].mean(axis=0))
        ).argsort().argsort() / (own.sum() - 1)
        assert ranks[good].mean() > 0.85
        assert expected[bad].mean() < 0.2


def test_one_odd_region_lends_few_of_the_bad_examples() -> None:
    rng = np.random.default_rng(0)
    hub = np.eye(6)[0] + 0.01 * rng.standard_normal((30, 6))
    others = rng.standard_normal((270, 6))
    points = np.concatenate([hub, others])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    surplus = points[:, 0]
    worst = np.argsort(-surplus)[:8]
    _, bad = examples(points, points.mean(axis=0), surplus, 8)
    assert np.trace(np.cov(points[bad].T)) >= np.trace(np.cov(points[worst].T))


def test_weights_move_the_mean_of_texts_to_the_rows_and_stay_positive() -> None:
    made, labels, real, of_rows = world()
    points, truth = points_of(made), true_means(real, of_rows)
    weights = tilt(points[labels == "a"], truth[0])
    before = np.linalg.norm(points[labels == "a"].mean(axis=0) - truth[0])
    after = np.linalg.norm(np.average(points[labels == "a"], axis=0, weights=weights) - truth[0])
    assert weights.mean() == pytest.approx(1)
    assert weights.min() > 0
    assert after < 0.7 * before
    both = tilted(expect(density(real, of_rows, 0.0), points, labels), points, labels)
    assert [both[labels == label].mean() for label in LABELS] == pytest.approx([1, 1])
