"""The audit of DP-KPS lets both sound parts pass, catches sabotaged ones, and shows what the printed noise is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tasks.accounting.keyphrases import KeyphraseNoise, PartPrivacy, calibrate_part
from tasks.audit.keyphrases import Corpus, Mechanism, audit_keyphrases, canary_corpus, likely_epsilon, release_of_a_run
from tasks.private.releases.keyphrase_release import NoisySums, clean_density, clean_vocabulary

TRIALS = 1000
PARTS = ("vocabulary", "density")


def noise_of(part: str, setting: str, epsilon: float = 1.0, **sizes: int) -> KeyphraseNoise:
    sizes = {"terms": 1, "frequencies": 1} | sizes
    return calibrate_part(PartPrivacy(part, epsilon, setting=setting, **sizes))  # type: ignore[arg-type]


def weaker(by: Callable[[KeyphraseNoise], float]) -> Mechanism:
    def run(corpus: Corpus, noise: KeyphraseNoise) -> list[NoisySums]:
        return release_of_a_run(corpus, replace(noise, scale_int=noise.scale_int / by(noise)))

    return run


def reused(corpus: Corpus, noise: KeyphraseNoise, kept: dict[str, np.ndarray] = {}) -> list[NoisySums]:  # noqa: B006
    """Noise that was drawn once and is added to every run's sums."""
    (one,) = release_of_a_run(corpus, noise)
    clean = (
        clean_vocabulary(corpus.terms, corpus.size, noise).sums
        if corpus.features is None
        else clean_density(corpus.features, [0] * len(corpus.features), 1, noise).sums
    )
    drawn = kept.setdefault(repr(noise), one.sums - clean)
    return [replace(one, sums=clean + drawn)]


def twice(corpus: Corpus, noise: KeyphraseNoise) -> list[NoisySums]:
    return [*release_of_a_run(corpus, noise), *release_of_a_run(corpus, noise)]


MUTANTS: dict[str, tuple[Mechanism, dict[str, int]]] = {
    "noise too small": (weaker(lambda noise: 3.0), {}),
    "the sensitivity of one coordinate only": (weaker(lambda noise: noise.sensitivity), {"terms": 9, "frequencies": 9}),
    "the same noise in every run": (reused, {}),
    "released twice": (twice, {}),
}


@pytest.mark.statistical
@pytest.mark.parametrize("setting", ["gaussian", "pure"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_sabotaged_part_is_caught(part: str, setting: str, name: str) -> None:
    run, sizes = MUTANTS[name]
    assert not all(finding.passed for finding in audit_keyphrases(noise_of(part, setting, **sizes), TRIALS, run))


@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("setting", ["gaussian", "pure", "paper"])
@pytest.mark.parametrize("part", PARTS)
def test_a_sound_part_passes(part: str, setting: str, adjacency: str) -> None:
    noise = noise_of(part, setting, 4.0, terms=3, frequencies=3)
    noise = calibrate_part(replace(noise.privacy, adjacency=adjacency))  # type: ignore[arg-type]
    findings = audit_keyphrases(noise, TRIALS)
    assert all(finding.passed for finding in findings), findings


@pytest.mark.statistical
@pytest.mark.parametrize("setting", ["gaussian", "pure"])
@pytest.mark.parametrize("part", PARTS)
def test_the_bound_comes_near_the_claim(part: str, setting: str) -> None:
    noise = noise_of(part, setting, 4.0)
    claimed, proven = audit_keyphrases(noise, 2 * TRIALS)[0].epsilons(1e-5)
    assert claimed == pytest.approx(4.0, abs=1e-3)
    assert 0.4 * claimed < proven <= claimed
    assert likely_epsilon(noise, 2 * TRIALS) == pytest.approx(proven, abs=1.0)


@pytest.mark.statistical
def test_the_printed_density_does_not_keep_its_epsilon_for_a_document_of_ten_keyphrases() -> None:
    noise = noise_of("density", "paper", 2.0, keyphrases=10)
    strength = audit_keyphrases(noise, TRIALS)[0]
    assert noise.epsilon_stated == 2.0
    assert strength.bound > 2 * noise.epsilon_stated
    assert strength.passed, "what the ledger is told, M times eps / 2, does hold"
    assert noise.epsilon_exact == pytest.approx(10.0, rel=1e-3)


@pytest.mark.parametrize("setting", ["gaussian", "pure", "paper"])
@pytest.mark.parametrize("part", PARTS)
def test_the_canary_adds_as_much_as_a_document_may(part: str, setting: str) -> None:
    noise = noise_of(part, setting, terms=4, frequencies=5)
    others, both = canary_corpus(noise.privacy)

    def clean(corpus: Corpus) -> np.ndarray:
        if corpus.features is None:
            return clean_vocabulary(corpus.terms, corpus.size, noise).sums
        return clean_density(corpus.features, [0] * len(corpus.features), 1, noise).sums

    moved = clean(both) - clean(others)
    length = np.linalg.norm(moved) if setting == "gaussian" else np.abs(moved).sum()
    assert length / noise.steps == pytest.approx(noise.sensitivity, rel=1e-3)
    assert length / noise.steps <= noise.sensitivity


def test_progress_is_told_for_every_trial() -> None:
    told: list[int] = []
    audit_keyphrases(noise_of("vocabulary", "pure"), 5, advance=told.append)
    assert sum(told) == 10
