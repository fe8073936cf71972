"""The two releases of DP-KPS in a run, on real rows and a real ledger: what a document adds, what is reported of it."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ConfigError, InputError
from flows.config.files import check_config
from flows.engine.prepare import prepare
from flows.engine.run_manifest import open_manifest
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.dp_kps.releases import check_sizes
from flows.methods.dp_kps.run import DpKpsRun
from tasks.accounting.composition import epsilon_of, mu_of
from tasks.accounting.integer_noise import calibrate_sums
from tasks.guidance import phrases as keyphrasing
from tasks.private.phrases import count as keyphrases
from tasks.private.phrases import step as paid
from tasks.private.phrases.count import clean_density, clean_vocabulary
from tasks.private.phrases.features import SequenceChoice, Shape, members_of
from tasks.private.phrases.promise import PartPrivacy
from tasks.private.rows.rows import problems_file
from tasks.private.sums import NoisySums
from tasks.writing.vocabulary import vocabulary_of
from tests.support.data.short_texts import LABELS, WORDS, save_rows
from tests.support.ledgers import output_of
from tests.support.runs.pipeline import SMALL, merged
from tests.support.runs.prepared_run import lift_cap

SIX = (
    "login_problem",
    "billing_question",
    "slow_internet",
    "delivery_delay",
    "cancel_contract",
    "hardware_fault",
)


def texts(number: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [
        (" ".join(draw.choices(WORDS, k=draw.randint(1, 8))), draw.choice(LABELS))
        for _ in range(number)
    ]


def chosen_terms(run: DpKpsRun) -> tuple[ArtifactRef, Any]:
    """Release the counts of terms and choose the vocabulary."""
    counted, _ = paid.count_terms(run.tools, run.vocabulary_spec)
    return counted, keyphrasing.choose_terms(run.tools, run.vocabulary_spec, counted)[0]


def opened(folder: Path, **changes: Any) -> DpKpsRun:
    rows = folder / "rows.jsonl"
    if not rows.exists():
        save_rows(rows, texts(40, 1))
    terms = folder / "terms.txt"
    terms.write_text("\n".join((*WORDS, "cable light", "unused")))
    values: dict[str, Any] = {
        **{name: SMALL[name] for name in ("task", "plms", "student", "execution")},
        "private": {"path": str(rows), "name": "desk"},
        "vocabulary": {"path": str(terms)},
        "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 32}},
        "method": {"samples": 12, "vocabulary_terms": 8, "length": 4},
    }
    config = check_config(DpKpsConfig, merged(values, changes), "the test")
    prepared = prepare("dp_kps", config, folder / "home")
    name = lift_cap(prepared).tools.run_name
    prepared.tools.ledger.reserve(name.dataset, prepared.plan, "the test")
    return DpKpsRun(prepared, open_manifest("dp_kps", prepared), 0.0)


def drawn(run: DpKpsRun) -> list[NoisySums]:
    entries = run.tools.ledger.history(run.tools.run_name.dataset)
    result = [
        output_of(run.tools.ledger, "desk", entry.number)
        for entry in entries
        if entry.kind == "release"
    ]
    return [NoisySums.from_bytes(output) for output in result if output]


SAMPLERS = {
    "independent": ({"sampling": "independent"}, 1, SequenceChoice(0, 1.0, repeats=True)),
    "sharpened": ({"sampling": "sharpened"}, 1, SequenceChoice(100, 2.0)),
    "iterative": ({}, 2, SequenceChoice(10, 1.0, repeats=True)),
    "linear": ({"ensemble": "linear"}, 4, SequenceChoice(10, 1.0, repeats=True)),
}


@pytest.mark.parametrize("setting", ["gaussian", "pure", "paper"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_each_sampler_pays_exactly_and_once_for_its_densities(
    tmp_path: Path, sampler: str, setting: str
) -> None:
    """Epsilon 1 + 5 at S = 10, D = 500, M = 10: sensitivities and costs by the formulas, for the ledger's entries."""
    method, members, choice = SAMPLERS[sampler]
    run = opened(
        tmp_path,
        method=method,
        privacy={"epsilon": 6.0, "vocabulary_epsilon": 1.0, "setting": setting},
    )
    assert run.density_spec.choice == choice
    counted, terms = chosen_terms(run)
    density, _ = paid.estimate_densities(run.tools, run.density_spec, terms)
    keyphrasing.draw_phrases(run.tools, run.density_spec, terms, density)
    first, second = (entry for entry in run.tools.ledger.history("desk") if entry.kind == "release")

    width = 2 * 500 * members
    if setting == "gaussian":
        sensitivity = np.sqrt(width / 2) + np.sqrt(width) / 8192
        mu = [entry.event["noise_multiplier"] ** -1 for entry in (first, second)]
        assert mu[0] == pytest.approx(mu_of(1.0, 1e-5), rel=1e-4)
        assert np.hypot(*mu) == pytest.approx(mu_of(6.0, 1e-5), rel=1e-4)
        assert second.noise_scale == pytest.approx(sensitivity / mu[1], rel=1e-9)
        assert epsilon_of([first.event, second.event], 1e-5) == pytest.approx(6.0, rel=1e-4)
    else:
        points = {"pure": 0.5, "paper": 10}[setting]
        sensitivity = np.sqrt(2) * width * points + width / 8192
        scale = (2 * np.sqrt(2) * width if setting == "paper" else sensitivity) / 5.0
        assert second.noise_scale == pytest.approx(scale, rel=1e-9)
        assert first.event["epsilon"] == 1.0
        assert second.event["epsilon"] == pytest.approx(sensitivity / scale, rel=1e-9)
        assert second.event["epsilon"] == pytest.approx(
            25.0 if setting == "paper" else 5.0, rel=1e-4
        )
    for ref in (counted, density):
        (run.tools.home / ref.path).unlink()
    again, why = paid.count_terms(run.tools, run.vocabulary_spec)
    assert (again.reused, again.sha256) == (True, counted.sha256)
    assert "no noise drawn" in why
    paid.estimate_densities(run.tools, run.density_spec, terms)
    vocabulary, sums = drawn(run)  # sequences cost nothing
    assert (vocabulary.sums.shape, sums.sums.shape) == ((1, len(WORDS) + 2), (6, width))


def test_another_private_row_is_another_release_and_the_same_draw_is_never_noise_twice(
    tmp_path: Path,
) -> None:
    first, second = opened(tmp_path / "a"), opened(tmp_path / "b")
    left, other = (paid.count_terms(run.tools, run.vocabulary_spec)[0] for run in (first, second))
    assert left.key != other.key, "another key names the rows"
    numbers = [
        run.tools.artifacts.read_table(ref)["sum"].to_numpy()
        for run, ref in ((first, left), (second, other))
    ]
    assert not np.array_equal(*numbers)


def test_a_term_counts_once_per_document_and_only_the_first_ones_count() -> None:
    steps = PartPrivacy("vocabulary", 2.0).steps
    for setting, document, counts in (
        ("pure", [3, 3, 5, 7], [0, 0, 0, 1, 0, 1, 0, 0]),
        ("paper", [3, 3, 5, 7], [0, 0, 0, 2, 0, 0, 0, 0]),
        ("gaussian", [99, 3], [0, 0, 0, steps, 0, 0, 0, 0]),
    ):
        noise = calibrate_sums(PartPrivacy("vocabulary", 2.0, setting=setting, terms=2))
        assert clean_vocabulary([document], 8, noise).sums[0].tolist() == counts


def test_features_of_another_width_are_refused() -> None:
    noise = calibrate_sums(PartPrivacy("density", 2.0, frequencies=3))
    with pytest.raises(ConfigError, match="6 features of each document, but it has 5"):
        clean_density(np.zeros((1, 5)), [0], 1, noise)


def test_what_a_document_adds_hangs_on_it_alone_and_keeps_to_the_bound() -> None:
    vocabulary = vocabulary_of([*WORDS, "cable light"])
    vectors = np.random.default_rng(0).standard_normal((len(vocabulary.terms), 6))
    documents = [text for text, _ in texts(30, 5)] + ["", "nothing of it", "cable light " * 50]
    for setting in ("gaussian", "pure", "paper"):
        shape = Shape("iterative", 5, 12, 0.4, setting != "paper")
        members = members_of(shape, vectors, 0)
        privacy = PartPrivacy(
            "density", 3.0, setting=setting, keyphrases=4, frequencies=12, members=len(members)
        )
        bound = calibrate_sums(privacy).sensitivity
        together = list(keyphrases._features(documents, vocabulary.matcher, members, privacy))
        for document, row in zip(documents, together, strict=True):
            (alone,) = keyphrases._features([document], vocabulary.matcher, members, privacy)
            assert np.array_equal(alone, row)
            assert (np.linalg.norm(row) if setting == "gaussian" else np.abs(row).sum()) <= bound
        assert not together[-3].any()
        assert not together[-2].any()


def test_the_private_vocabulary_is_that_of_the_noisy_counts(tmp_path: Path) -> None:
    run = opened(tmp_path, privacy={"epsilon": 200.0})
    _, terms = chosen_terms(run)
    table = run.tools.artifacts.read_table(terms.table)
    assert len(table) == 8
    assert table["count"].is_monotonic_decreasing
    assert "unused" not in table["term"].tolist()
    far = opened(tmp_path, method={"threshold": 100.0}, privacy={"epsilon": 0.5})
    with pytest.raises(InputError, match=r"method\.threshold"):
        chosen_terms(far)


def test_without_a_stated_threshold_terms_of_noise_are_left_out_and_no_run_fails_for_it(
    tmp_path: Path,
) -> None:
    def counts(folder: str, at_least: int, **privacy: Any) -> pd.Series:
        (tmp_path / folder).mkdir()
        run = opened(tmp_path / folder, privacy=privacy)
        spec = run.vocabulary_spec
        counted, _ = paid.count_terms(run.tools, spec)
        spec = replace(spec, at_least=min(spec.at_least, at_least))
        terms = keyphrasing.choose_terms(run.tools, spec, counted)[0]
        return run.tools.artifacts.read_table(terms.table)["count"]

    assert counts("exact", 0, epsilon=200.0).min() >= 1, "no unused term"
    assert 4 <= len(counts("noise", 4, epsilon=0.05)) < 8
    assert len(counts("few", 100, epsilon=0.05)) == 8, "the best 100 terms stay"
    assert len(counts("paper", 0, epsilon=0.05, setting="paper")) == 8, "none in the paper"


def test_the_settings_of_the_paper_change_what_a_record_adds(tmp_path: Path) -> None:
    changes = {"terms": 4, "keyphrases": 3, "frequencies": 60, "sampling": "independent"}
    run = opened(tmp_path, method=changes, privacy={"epsilon": 6.0, "setting": "paper"})
    _, terms = chosen_terms(run)
    paid.estimate_densities(run.tools, run.density_spec, terms)
    first, second = (entry for entry in run.tools.ledger.history("desk") if entry.kind == "release")
    assert first.sensitivity == 4
    # M points of 2 D printed features up to sqrt(2), and half a step of rounding each.
    assert second.sensitivity == pytest.approx(np.sqrt(2) * 120 * 3 + 120 / 8192)


def test_an_example_for_prompts_that_is_a_private_row_is_shown_to_their_owner_alone(
    tmp_path: Path,
) -> None:
    text, label = texts(40, 1)[3]
    examples = [
        (text.upper(), label),
        *((f"an own text about {name} {n}", name) for name in SIX for n in range(3)),
    ]
    run = opened(tmp_path, few_shot=save_rows(tmp_path / "given.jsonl", examples))
    listed = json.loads(problems_file(run.tools.zone, run.tools.private).read_text())["problems"]
    of_rows = [(problem["row"], problem["reason"]) for problem in listed if "row" in problem]
    assert of_rows == [(3, "the same text is a test or public row")]


def test_examples_for_prompts_are_enough_for_each_class_and_no_test_rows(tmp_path: Path) -> None:
    examples = [
        (f"our {WORDS[n]} and {WORDS[n + 4]}, says {name}", name) for name in SIX for n in range(4)
    ]
    arguments = save_rows(tmp_path / "given.jsonl", examples)
    few = save_rows(tmp_path / "few.jsonl", examples[:4] + examples[5:7])
    with pytest.raises(ConfigError, match="has 2 examples, but each prompt shows 3 of every class"):
        opened(tmp_path, few_shot=few)
    with pytest.raises(
        ConfigError, match=r"few_shot: 24 examples are test rows too, the first is row 0"
    ):
        opened(tmp_path, few_shot=arguments, test=arguments)


def test_what_the_vocabulary_or_the_ledger_does_not_suffice_for_is_refused_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="larger vocabulary"):
        opened(tmp_path, method={"length": 20, "vocabulary_terms": 20})
    run = opened(tmp_path)
    with pytest.raises(ConfigError, match=r"densities of 1000 classes take 16\.0 MB in the ledger"):
        check_sizes(
            run.config, replace(run.prepared.card, labels=run.prepared.card.labels[:1] * 1000)
        )
