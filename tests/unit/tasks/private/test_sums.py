"""The contract of every release of sums: bounded contributions, noise of the charged scale, paid and drawn once."""

import math
import pickle
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from connectors.artifacts.store import Artifacts
from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.errors import (
    ArtifactError,
    ConfigError,
    InputError,
    LedgerError,
    PrivateInputError,
)
from connectors.interfaces.ledger import BudgetPlan
from connectors.ledger.ledger import PrivacyLedger
from tasks.accounting.composition import epsilon_of, filter_epsilon, second_opinion
from tasks.accounting.integer_noise import MIN_SCALE_INT, SumNoise, calibrate_sums
from tasks.private.density import count as density
from tasks.private.density.count import clean_sums
from tasks.private.density.features import body, counted
from tasks.private.density.promise import DensityPrivacy
from tasks.private.phrases.count import clean_density, clean_vocabulary, contribution, features_at
from tasks.private.phrases.promise import PartPrivacy
from tasks.private.sums import CleanSums, NoisySums, SumJob, add_noise, release_sums, write_sums
from tasks.private.teachers.answers import clean_answers
from tasks.private.teachers.labels import clean_labels
from tasks.private.teachers.promise import TeacherPrivacy
from tasks.private.votes.ballot import Ballot
from tasks.steps.values import ChargedDataset

LABELS = ("a", "b", "c")
ODD = [0.0, 1.0, -3.5, 1e-30, 1e30, math.inf, math.nan]
QUERIES, TERMS = 5, 12

Unit = Any
"""All that one protected record, person or document adds; for teachers the answers of one of them."""


def rows_of(number: int) -> Callable[[np.random.Generator, Any], Unit]:
    """Draw a name and up to `number` rows (vector, label)."""

    def draw(rng: np.random.Generator, privacy: Any) -> Unit:
        rows = []
        for _ in range(rng.integers(1, number + 1)):
            vector = rng.standard_normal(4) if rng.random() < 0.8 else rng.choice(ODD, 4)
            rows.append((vector, str(rng.choice([*LABELS, "unknown"], p=[0.6, 0.2, 0.1, 0.1]))))
        return str(rng.integers(10**9)), rows

    return draw


def sums_of_rows(units: Sequence[Unit], noise: SumNoise[Any]) -> CleanSums:
    rows = [(name, vector, label) for name, own in units for vector, label in own]
    names = [name for name, _, _ in rows] if noise.privacy.protects == "person" else None
    vectors = np.array([vector for _, vector, _ in rows], dtype=np.float32).reshape(-1, 4)
    return clean_sums(
        Ballot(vectors, [label for *_, label in rows], 1, names, b"key", 1), LABELS, noise
    )


def document(rng: np.random.Generator, privacy: Any) -> Unit:
    """Draw features of a document, some too long or not finite, and its class or none."""
    paper = privacy.setting == "paper"
    shape = rng.integers(0, 6), privacy.frequencies * (2 if paper else 1)
    points = features_at(rng.uniform(0, 7, shape), rng.uniform(0, 7, shape[1]) if paper else None)
    row = contribution(points, privacy) * rng.choice([1.0, 1.0, 1.3, 1.9, 1e6])
    return rng.choice(
        [math.nan, math.inf, 1e308], len(row)
    ) if rng.random() < 0.1 else row, rng.integers(-1, 4)


def sums_of_documents(units: Sequence[Unit], noise: SumNoise[Any]) -> CleanSums:
    return clean_density([row for row, _ in units], [label for _, label in units], 3, noise)


def teacher(rng: np.random.Generator, privacy: Any) -> Unit:
    return rng.choice([0.0, 1.0, 0.5, 0.123, -2.0, 3.0, math.nan], privacy.numbers)


@dataclass(frozen=True)
class Kind:
    """A kind of release: its promise, one unit of its input, its sums.

    `strange`: units that add nothing. `removable`: a unit can be missing; a teacher always answers.
    """

    privacy: Any
    draw: Callable[[np.random.Generator, Any], Unit]
    clean: Callable[[Sequence[Unit], SumNoise[Any]], CleanSums]
    strange: tuple[Unit, ...] = ()
    removable: bool = True

    def noise(self, **changes: Any) -> SumNoise[Any]:
        return calibrate_sums(replace(self.privacy, **changes))


def terms(setting: Any) -> Kind:
    return Kind(
        PartPrivacy("vocabulary", 2.0, setting=setting, terms=3),
        lambda rng, privacy: rng.integers(-2, TERMS + 2, rng.integers(0, 12)).tolist(),
        lambda units, noise: clean_vocabulary(units, TERMS, noise),
        strange=([], [-1, 99]),
    )


def densities(setting: Any) -> Kind:
    odd = ([math.nan] * 6, [math.inf, *[0.0] * 5], [1e308] * 6)
    strange = (*((np.array(row), 0) for row in odd), (np.full(6, 0.1), 7), (np.full(6, 0.1), -1))
    privacy = PartPrivacy("density", 2.0, setting=setting, frequencies=3, keyphrases=4)
    return Kind(privacy, document, sums_of_documents, strange)


def answers(kind: Any) -> Kind:
    promise = TeacherPrivacy("answers", 2.0, 1e-5, QUERIES, kind)
    return Kind(promise, teacher, lambda units, _: clean_answers(units), removable=False)


def labels(kind: Any) -> Kind:
    return Kind(
        TeacherPrivacy("labels", 2.0, 1e-5, 3, kind),
        lambda rng, privacy: str(rng.choice([*LABELS, "unknown"])),
        lambda units, noise: clean_labels(units, LABELS, noise),
        strange=("unknown", ""),
    )


STRANGE_ROWS = (
    *((str(value), [(np.full(4, value), "a")]) for value in (math.inf, math.nan)),
    ("stranger", [(np.ones(4), "unknown")]),
)
KINDS = {
    "guidance": Kind(DensityPrivacy(2.0, 1e-5), rows_of(1), sums_of_rows, STRANGE_ROWS),
    "guidance of persons": Kind(
        DensityPrivacy(2.0, 1e-5, protects="person", rows_per_person=3),
        rows_of(5),
        sums_of_rows,
        STRANGE_ROWS,
    ),
    **{f"vocabulary, {setting}": terms(setting) for setting in ("gaussian", "pure", "paper")},
    **{f"density, {setting}": densities(setting) for setting in ("gaussian", "pure", "paper")},
    **{f"labels, {kind}": labels(kind) for kind in ("gaussian", "laplace")},
    **{f"answers, {kind}": answers(kind) for kind in ("gaussian", "laplace")},
}

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def neighbours(
    kind: Kind, units: list[Unit], noise: SumNoise[Any], rng: np.random.Generator
) -> list[list[Unit]]:
    """Return inputs in which one record is missing, or another one; each may change one teacher, or two."""
    result = []
    for position in range(len(units)):
        others = [*units[:position], *units[position + 1 :]]
        replaced = noise.privacy.adjacency == "replace_one"
        if replaced or not kind.removable:
            others.insert(position, kind.draw(rng, noise.privacy))
        if replaced and not kind.removable:
            others[position - 1] = kind.draw(rng, noise.privacy)
        result.append(others)
    return result


@every_kind
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_neighbour_moves_the_sums_no_further_than_their_sensitivity(
    kind: Kind, adjacency: str
) -> None:
    noise, most = kind.noise(adjacency=adjacency), 0.0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        units = [kind.draw(rng, noise.privacy) for _ in range(rng.integers(2, 7))]
        whole = kind.clean(units, noise).sums
        for others in neighbours(kind, units, noise, rng):
            moved = (whole - kind.clean(others, noise).sums).astype(
                np.float64
            ).ravel() / noise.privacy.steps
            length = np.abs(moved).sum() if noise.kind == "laplace" else np.linalg.norm(moved)
            assert length <= noise.sensitivity * (1 + 1e-12)
            most = max(most, float(length))
    assert most > noise.sensitivity / 8, "the inputs must come near enough to show a wrong bound"


@every_kind
def test_strange_records_add_nothing_and_fail_nothing(kind: Kind) -> None:
    noise, rng = kind.noise(), np.random.default_rng(0)
    units = [kind.draw(rng, noise.privacy) for _ in range(4)]
    with warnings.catch_warnings(action="error"):
        before, after = (kind.clean(some, noise).sums for some in (units, [*units, *kind.strange]))
    assert np.array_equal(before, after)


@every_kind
def test_every_number_gets_fresh_noise_of_the_charged_scale(kind: Kind) -> None:
    noise, count = kind.noise(), 8000
    drawn = []
    for _ in range(2):
        np.random.seed(0)
        drawn.append(add_noise(CleanSums(np.full((2, count // 2), 7)), noise).sums.ravel() - 7.0)
    scale = noise.charge.noise_scale * noise.privacy.steps
    rate = math.exp(-1 / scale)
    expected = math.sqrt(2 * rate) / (1 - rate) if noise.kind == "laplace" else scale
    both = np.concatenate(drawn)
    assert both.std() == pytest.approx(expected, rel=6 * 1.2 / math.sqrt(2 * count))
    assert abs(both.mean()) < 6 * expected / math.sqrt(2 * count)
    assert abs(np.corrcoef(*drawn)[0, 1]) < 6 / math.sqrt(count)
    assert abs(np.corrcoef(both[1:], both[:-1])[0, 1]) < 6 / math.sqrt(2 * count)


def paying(folder: Path, noise: SumNoise[Any]) -> tuple[Any, SumJob[Any]]:
    """Return tools with a ledger that has reserved a release, and its job."""
    ledger = PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}", filter_epsilon)
    ledger.register("notes", "fingerprint", ["a" * 64], "Ada")
    ledger.reserve("notes", BudgetPlan("run", "wasp", 1e-5, (noise.charge,)), "Ada")
    zone = SimpleNamespace(folder=folder / "problems")
    tools = SimpleNamespace(run_id="run", ledger=ledger, zone=zone, artifacts=Artifacts(folder))
    return tools, SumJob(ChargedDataset("notes", "fingerprint"), noise, StepKey("sums", 1, {}, {}))


@every_kind
def test_a_release_is_charged_and_drawn_once_and_read_back_ever_after(
    kind: Kind, tmp_path: Path
) -> None:
    noise, rng = kind.noise(), np.random.default_rng(0)
    tools, job = paying(tmp_path, noise)
    ledger = tools.ledger
    units, opened = [kind.draw(rng, noise.privacy) for _ in range(4)], []

    def clean() -> CleanSums:
        opened.append(1)
        return kind.clean(units, noise)

    first, second = (release_sums(tools, job, clean) for _ in range(2))
    assert (first.output, first.reused, second.reused, len(opened)) == (
        second.output,
        False,
        True,
        1,
    )
    sums = NoisySums.from_bytes(first.output)
    assert (sums.sums.shape, sums.steps, sums.scale_int) == (
        clean().sums.shape,
        noise.privacy.steps,
        noise.scale_int,
    )
    ledger.finish("notes", "run")
    (entry,) = (entry for entry in ledger.history("notes") if entry.kind == "release")
    assert (entry.slot, entry.event, entry.noise_scale) == (
        noise.privacy.part,
        noise.charge.event,
        noise.scale,
    )
    assert ledger.verify("notes", second=second_opinion) == []


@every_kind
def test_a_release_has_noise_of_the_charged_scale(kind: Kind, tmp_path: Path) -> None:
    noise, count = kind.noise(), 8000
    tools, job = paying(tmp_path, noise)
    output = release_sums(tools, job, lambda: CleanSums(np.full((1, count), 7))).output
    drawn = NoisySums.from_bytes(output).sums.ravel() - 7.0
    scale = noise.charge.noise_scale * noise.privacy.steps
    if noise.kind == "laplace":
        scale = math.sqrt(2) / (2 * math.sinh(0.5 / scale))  # of integers
    assert drawn.std() == pytest.approx(scale, rel=6 * 1.2 / math.sqrt(count))


@every_kind
def test_no_error_of_a_draw_leaves_the_private_zone(kind: Kind, tmp_path: Path) -> None:
    tools, job = paying(tmp_path, kind.noise())

    def clean() -> CleanSums:
        raise ValueError("cannot embed 'a secret text'")

    with pytest.raises(PrivateInputError, match="PRIVATE-STEP") as refused:
        release_sums(tools, job, clean)
    assert "secret" not in "".join(traceback.format_exception(refused.value))
    assert "a secret text" in refused.value.details.read_text()
    assert [entry for entry in tools.ledger.history("notes") if entry.kind == "release"] == []


def test_a_finished_file_without_an_entry_in_the_ledger_is_not_used(tmp_path: Path) -> None:
    """The ledger was lost or replaced: drawing again would be a loss that nobody counts."""
    noise = KINDS["guidance"].noise()
    tools, job = paying(tmp_path, noise)
    write_sums(tools, job, lambda: CleanSums(np.full((1, 3), 7)))
    (tmp_path / "replaced").mkdir()
    replaced, _ = paying(tmp_path / "replaced", noise)
    tools.ledger = replaced.ledger
    with pytest.raises(LedgerError, match="no entry for this finished release"):
        write_sums(tools, job, lambda: pytest.fail("nothing is drawn"))
    assert [entry for entry in tools.ledger.history("notes") if entry.kind == "release"] == []


def test_a_check_that_fails_prevents_the_payment_and_an_existing_release_needs_none(
    tmp_path: Path,
) -> None:
    tools, job = paying(tmp_path, KINDS["guidance"].noise())

    def refuse() -> None:
        raise InputError("no usable texts")

    with pytest.raises(InputError, match="no usable texts"):
        write_sums(tools, job, lambda: pytest.fail("nothing is drawn"), check=refuse)
    assert [entry for entry in tools.ledger.history("notes") if entry.kind == "release"] == []
    written, _ = write_sums(tools, job, lambda: CleanSums(np.full((1, 3), 7)))
    (tmp_path / written.path).unlink()
    again, why = write_sums(tools, job, lambda: pytest.fail("nothing is drawn"), check=refuse)
    assert (again.sha256, "no noise drawn" in why) == (written.sha256, True)


@every_kind
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_the_charge_costs_what_was_promised(kind: Kind, epsilon: float) -> None:
    noise = kind.noise(epsilon=epsilon)
    cost = epsilon_of([noise.charge.event], 1e-5)
    assert cost <= noise.epsilon_exact + 1e-4, "numeric composition rounds up to 1e-4"
    assert second_opinion([noise.event], 1e-5) <= filter_epsilon([noise.event], 1e-5) + 1e-4
    if (noise.privacy.part, noise.privacy.calibration) != ("density", "paper"):
        assert epsilon * (1 - 1e-4) < noise.epsilon_exact <= epsilon
    assert noise.epsilon_stated == epsilon
    more = kind.noise(epsilon=epsilon, adjacency="replace_one")
    same = pytest.approx(noise.scale) == more.scale
    assert same if noise.privacy.calibration == "paper" else more.scale > noise.scale


@every_kind
def test_numbers_that_promise_nothing_are_refused_by_name(kind: Kind) -> None:
    wrong = {"epsilon": 0.0, "delta": 1.0, "adjacency": "other"}
    wrong |= dict.fromkeys(kind.privacy.limits, "other") | dict.fromkeys(kind.privacy.sizes, 0)
    for field, value in wrong.items():
        with pytest.raises(ConfigError, match=rf"privacy\.{field}"):
            kind.noise(**{field: value})
    if not isinstance(kind.privacy, PartPrivacy):
        bare = kind.noise(
            epsilon=math.inf,
            **({"kind": "none"} if isinstance(kind.privacy, TeacherPrivacy) else {}),
        )
        assert (bare.charge.mechanism, bare.charge.event["type"], bare.scale) == (
            "none",
            "non_private",
            0.0,
        )
        assert add_noise(CleanSums(np.full((1, 2), 7)), bare).sums.tolist() == [[7, 7]]


@pytest.mark.parametrize("name", ["density, pure", "answers, laplace"])
def test_noise_of_too_few_steps_is_refused(name: str) -> None:
    """On a coarse grid the sums would show more than the formula of the noise says."""
    kind = KINDS[name]
    assert kind.noise(epsilon=10.0).scale_int >= MIN_SCALE_INT
    with pytest.raises(ConfigError, match=r"privacy\.epsilon.*at most"):
        kind.noise(epsilon=1e6)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.removable])
def test_noise_of_another_release_is_refused(name: str) -> None:
    kind = KINDS[name]
    units = [kind.draw(np.random.default_rng(0), kind.privacy)]
    for other in KINDS.values():
        if other.privacy.part != kind.privacy.part:
            with pytest.raises(ConfigError, match="The noise was calibrated for"):
                kind.clean(units, other.noise())


def test_clean_sums_cannot_be_stored_and_damaged_ones_are_refused() -> None:
    clean = CleanSums(np.full((1, 3), 1234))
    assert repr(clean) == "CleanSums(hidden)"
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(clean)
    stored = NoisySums(np.array([[-5, 700]]), 128, 3.25).to_bytes()
    assert stored[:-32].hex() == (
        "4b50532d53554d53" "0103" "0000000000006040" "0000000000000a40" "000000000000f03f"
        "0100000000000000" "0200000000000000" "fbffffffffffffff" "bc02000000000000"
    ), "the same on every machine"  # fmt: skip
    for damaged in (stored[:-1] + b"x", b""):
        with pytest.raises(ArtifactError, match="damaged"):
            NoisySums.from_bytes(damaged)


# --- the density of private rows: its own facts; tests/unit/tasks/private/test_sums.py has the contract


def noise_of(**privacy: Any) -> SumNoise[DensityPrivacy]:
    return calibrate_sums(DensityPrivacy(4.0, 1e-5, **privacy))


def test_opposite_rows_of_a_class_move_the_density_by_its_sensitivity() -> None:
    noise = noise_of(adjacency="replace_one")
    directions = np.random.default_rng(5).standard_normal((60, 4)).astype(np.float32)
    rows = np.concatenate([np.eye(4, dtype=np.float32), directions])
    features = [
        clean_sums(Ballot(row[None], ["a"], 1, sides=1), LABELS, noise).sums
        for row in (*rows, *-rows)
    ]
    other = [np.roll(sums, 1, axis=0) for sums in features]
    moves = [
        np.linalg.norm(item - two) / noise.privacy.steps
        for item in features
        for two in (*features, *other)
    ]
    assert noise.sensitivity * (1 - 1e-4) < max(moves) <= noise.sensitivity


def test_what_a_row_adds_is_the_same_bit_for_bit_whoever_is_next_to_it() -> None:
    noise, vectors = (
        noise_of(),
        np.random.default_rng(0).standard_normal((40, 384)).astype(np.float32),
    )
    rows = Ballot(vectors, ["a"] * 40, 1, sides=1)
    alone = sum(
        clean_sums(Ballot(vectors[row : row + 1], ["a"], 1, sides=1), LABELS, noise).sums
        for row in range(40)
    )
    backwards = replace(rows, vectors=vectors[::-1])
    assert np.array_equal(clean_sums(rows, LABELS, noise).sums, alone)
    assert np.array_equal(clean_sums(backwards, LABELS, noise).sums, alone)


def test_a_row_whose_other_features_are_too_long_adds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where rows are replaced, the constants cancel, so the bound of the other features must hold by itself."""
    row = Ballot(np.eye(4, dtype=np.float32)[:1], ["a"], 1, sides=1)
    assert clean_sums(row, LABELS, noise_of()).sums.any()
    monkeypatch.setattr(
        density, "features_of", lambda vectors: np.array([[0.1, 0.99, 0.0, 0.0, 0.0]])
    )
    assert not clean_sums(row, LABELS, noise_of()).sums.any()


def test_the_longest_document_counts_although_its_features_are_rounded() -> None:
    """At 45 degrees of every pair, rounding can lengthen a document by half a step for each feature."""
    for frequencies in range(1, 40):
        noise = calibrate_sums(PartPrivacy("density", 2.0, frequencies=frequencies))
        angles = np.linspace(0.1, 1.4, frequencies)[None]
        row = contribution(features_at(angles, None), noise.privacy)
        assert clean_density([row], [0], 1, noise).sums.any(), frequencies


def test_sums_reveal_how_many_rows_there_are_and_their_mean_vector() -> None:
    noise, vectors = (
        noise_of(),
        np.random.default_rng(1).standard_normal((30, 16)).astype(np.float32),
    )
    sums = (
        clean_sums(Ballot(vectors, ["b"] * 30, 1, sides=1), LABELS, noise).sums
        / noise.privacy.steps
    )
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert counted(sums) == pytest.approx([0, 30, 0], abs=0.02)
    assert body(sums)[1] == pytest.approx(units.sum(axis=0), abs=0.01)


def test_persons_and_their_noise_go_together() -> None:
    rows = Ballot(np.eye(3, dtype=np.float32), LABELS, 1, sides=1)
    with pytest.raises(ConfigError, match="if, and only if"):
        clean_sums(rows, LABELS, noise_of(protects="person", rows_per_person=2))
