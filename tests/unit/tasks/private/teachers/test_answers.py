"""Teachers and the tutor in a run, on real rows and a real ledger: what one row changes, what is reported, refused."""

import random
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ArtifactError, InputError, PrivateInputError
from flows.methods.kd_tutor import run as kd_run
from flows.methods.kd_tutor.releases import kd_releases
from flows.methods.kd_tutor.run import KdRun
from tasks.accounting.integer_noise import calibrate_sums
from tasks.guidance import discriminator
from tasks.guidance.discriminator import SelectSpec
from tasks.private.held_out import held_out
from tasks.private.sums import NoisySums
from tasks.private.teachers import answers as teachers
from tasks.private.teachers import step as teaching
from tasks.private.teachers.answers import TeacherJob, clean_answers, shard, shard_of
from tasks.private.teachers.promise import TeacherPrivacy
from tasks.steps.values import ChargedDataset, TextTable
from tasks.students.spec import StudentSpec
from tests.support.data.short_texts import LABELS, save_rows
from tests.support.ledgers import output_of
from tests.support.models.tiny import save_roberta
from tests.support.runs.kd_tutor import opened, texts, written_by

SECRET = b"s" * 32


def taught(run: KdRun) -> tuple[teaching.TeacherSpec, list[TextTable]]:
    spec, written = run.teacher_spec(), written_by(run)
    teach_all(run, spec, written)
    return spec, written


def teach_all(run: KdRun, spec: teaching.TeacherSpec, written: list[TextTable]) -> None:
    for number in range(spec.teachers):
        teaching.teach(run.tools, spec, number, written)


def answers_of(
    run: KdRun, spec: teaching.TeacherSpec, written: list[TextTable]
) -> list[np.ndarray[Any, Any]]:
    places = [
        teaching._answers_path(run.tools, spec, number, written) for number in range(spec.teachers)
    ]
    result = [run.tools.artifacts.read_private_arrays(position) for position in places]
    return [item["answers"] for item in result if item is not None]


def student_of(run: KdRun, spec: teaching.TeacherSpec, written: list[TextTable]) -> Any:
    """Release the answers of the teachers and train the discriminator on them."""
    answered, _ = teaching.ask_teachers(run.tools, spec, written)
    return discriminator.train_discriminator(run.tools, spec, written, answered)[0]


def releases(run: KdRun) -> dict[str, NoisySums]:
    entries = [entry for entry in run.tools.ledger.history("desk") if entry.kind == "release"]
    outputs = {entry.slot: output_of(run.tools.ledger, "desk", entry.number) for entry in entries}
    return {slot: NoisySums.from_bytes(output) for slot, output in outputs.items() if output}


def job(number: int = 0, teachers: int = 5) -> TeacherJob:
    return TeacherJob("", number, teachers, StudentSpec("linear"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(min_size=1), max_size=20), st.text(min_size=1), st.integers(1, 7))
def test_one_more_row_changes_one_shard_and_no_other(
    rows: list[str], more: str, teachers: int
) -> None:
    with_it = [*rows, more]
    random.Random(len(rows)).shuffle(with_it)
    changed = []
    for number in range(teachers):
        before = [rows[position] for position in shard(rows, job(number, teachers), SECRET)]
        after = [with_it[position] for position in shard(with_it, job(number, teachers), SECRET)]
        changed += [number] * (before != after)
    assert set(changed) <= {shard_of(more, teachers, 0, SECRET)}


def test_shards_are_disjoint_hold_each_text_once_and_are_equal_up_to_chance() -> None:
    rows = [f"text number {number}" for number in range(3000)]
    shards = [
        {rows[position] for position in shard(rows + rows, job(number), SECRET)}
        for number in range(5)
    ]
    assert sum(map(len, shards)) == 3000
    assert set.union(*shards) == set(rows)
    assert all(abs(len(item) - 600) < 6 * np.sqrt(3000 * 0.2 * 0.8) for item in shards)
    assert shard_of("A text", 5, 0, SECRET) == shard_of(" a  TEXT ", 5, 0, SECRET), (
        "equal but for case and space"
    )


def test_a_row_more_changes_the_answers_of_one_teacher_alone_bit_for_bit(tmp_path: Path) -> None:
    rows = texts(40, 1)
    more = [*rows[:7], ("a new parcel", LABELS[0]), *rows[7:]]
    first, second = opened(tmp_path / "a", rows), opened(tmp_path / "b", more)
    secret = first.tools.zone.choice
    object.__setattr__(second.tools.zone, "choice", secret)
    before, after = (answers_of(run, *taught(run)) for run in (first, second))
    changed = [number for number in range(4) if not np.array_equal(before[number], after[number])]
    assert changed == [shard_of("a new parcel", 4, 0, secret)]
    moved = (clean_answers(before).sums - clean_answers(after).sums) / 1024
    assert (
        np.linalg.norm(moved)
        <= calibrate_sums(TeacherPrivacy("answers", 1.0, 1e-5, 20)).sensitivity
    )


def test_answers_and_counts_are_charged_once_and_read_back_ever_after(tmp_path: Path) -> None:
    run = opened(tmp_path)
    guarantee = run.prepared.guarantee
    counts, _ = guarantee.releases
    counted, _ = teaching.count_labels(
        run.tools, run.payer, counts.noise, run.prepared.card.label_names
    )
    spec, written = taught(run)
    answered, _ = teaching.ask_teachers(run.tools, spec, written)
    entries = [entry for entry in run.tools.ledger.history("desk") if entry.kind == "release"]
    assert [entry.slot for entry in entries] == ["labels", "answers"]
    assert [entry.event for entry in entries] == [
        release.noise.event for release in guarantee.releases
    ]
    assert guarantee.epsilon_exact == pytest.approx(4.0, abs=1e-4)
    result = releases(run)
    assert result["labels"].sums.shape == (1, 6)
    assert result["answers"].sums.shape == (20, 2)
    assert sum(teaching.read_shares(run.tools, counted)) == pytest.approx(1.0)
    (run.tools.home / answered.path).unlink()
    again, why = teaching.ask_teachers(run.tools, spec, written)
    assert again.sha256 == answered.sha256
    assert "no noise drawn" in why
    unneeded = "not needed: the answers of all teachers are already released"
    assert teaching.teach(run.tools, spec, 0, written) == (None, unneeded)
    assert len(releases(run)) == 2


def test_a_teacher_without_rows_says_one_half_and_nobody_hears_of_it(tmp_path: Path) -> None:
    run = opened(tmp_path, texts(3, 2), discriminator={"teachers": 12})
    spec, written = taught(run)
    answers = answers_of(run, spec, written)
    assert len(answers) == 12
    assert sum(bool((item == 0.5).all()) for item in answers) >= 9
    teaching.ask_teachers(run.tools, spec, written)
    assert releases(run)["answers"].sums.shape == (20, 2)


def test_teachers_and_their_student_can_be_transformers(tmp_path: Path) -> None:
    folder = save_roberta(tmp_path / "roberta")
    chosen = {
        "kind": "finetune",
        "model": str(folder),
        "epochs": 1,
        "teachers": 2,
        "max_length": 16,
    }
    run = opened(tmp_path / "run", discriminator=chosen, privacy={"epsilon": 200.0})
    spec, written = taught(run)
    answers = answers_of(run, spec, written)
    assert len(answers) == 2
    assert all(((item > 0) & (item < 1)).all() for item in answers)
    chosen_texts = SelectSpec(0, 24, run.prepared.card.label_names, (), True, 0)
    stored, _ = discriminator.select_texts(
        run.tools, chosen_texts, written, student_of(run, spec, written)
    )
    assert sum(item.samples.rows for item in stored) == 24


def test_lost_answers_stop_the_release_before_it_is_paid(tmp_path: Path) -> None:
    run = opened(tmp_path)
    spec, written = taught(run)
    position = teaching._answers_path(run.tools, spec, 2, written)
    (run.tools.home / position).unlink()
    with pytest.raises(ArtifactError, match="nothing was spent"):
        teaching.ask_teachers(run.tools, spec, written)
    assert not releases(run)
    teaching.teach(run.tools, spec, 2, written)
    teaching.ask_teachers(run.tools, spec, written)
    assert list(releases(run)) == ["answers"]


def test_teachers_never_learn_from_what_they_are_queried_about() -> None:
    answers = calibrate_sums(TeacherPrivacy("answers", 1.0, 1e-5, 20))
    spec = teaching.TeacherSpec(ChargedDataset("", ""), answers, StudentSpec("linear"), 4, 12)
    shown = [teaching.shown_to(48, number, spec) for number in range(4)]
    assert {queries for queries, _ in shown} == {shown[0][0]}
    for queries, negatives in shown:
        assert (len(queries), len(negatives)) == (20, 12)
        assert not set(queries) & set(negatives)
    assert len({negatives for _, negatives in shown}) == 4
    with pytest.raises(InputError, match=r"discriminator\.queries"):
        teaching.shown_to(20, 0, spec)


def with_test_rows(
    folder: Path, groups: Any = None
) -> tuple[KdRun, teaching.TeacherSpec, list[TextTable]]:
    """Return a run whose test rows are drawn like its private rows, after its teachers."""
    rows = save_rows(folder / "test.jsonl", texts(60, 9))
    more = {"written": 96, "samples": 24}
    run = opened(folder, test=rows, method=more, **(groups or {}))
    return run, *taught(run)


def test_half_of_the_queries_are_public_rows_and_teach_the_student_both_kinds(
    tmp_path: Path,
) -> None:
    """Teachers that recognise all generated texts leave a student of generated queries one class."""
    public, accuracies = texts(40, 5), []
    for name, rows in (
        ("public", {"public": save_rows(tmp_path / "public.jsonl", public)}),
        ("generated", {}),
    ):
        run, spec, written = with_test_rows(
            tmp_path / name, {"privacy": {"epsilon": 1000.0}} | rows
        )
        queries = teaching.queries_of(run.tools, spec, written).texts
        assert len(queries) == len(set(queries)) == 20
        assert len(set(queries) & {text for text, _ in public}) == (10 if rows else 0)
        warned = any(
            "all discriminator.queries are generated" in warning
            for warning in run.prepared.warnings
        )
        assert warned != bool(rows)
        test = run.prepared.test
        measured, _ = discriminator.measure_discriminator(
            run.tools, spec, test, written, student_of(run, spec, written)
        )
        counts = run.tools.artifacts.read_json(measured)
        accuracies.append(counts["right"] / counts["rows"])
    assert accuracies[0] > 0.8
    assert accuracies[1] < 0.7


def test_too_few_public_rows_are_refused_before_a_teacher_is_trained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="public: it has 9 rows, but 10 of 20"):
        with_test_rows(tmp_path, {"public": save_rows(tmp_path / "public.jsonl", texts(9, 5))})


def test_a_discriminator_is_measured_on_rows_that_took_no_part_in_its_training(
    tmp_path: Path,
) -> None:
    run, spec, written = with_test_rows(tmp_path)
    used = teaching.shown_to_any(96, spec)
    rows = held_out(run.tools, spec, run.prepared.test, written)
    half = len(rows.texts) // 2
    assert half == min(60, 96 - len(used))
    samples = discriminator.read_samples(run.tools, written)["text"].tolist()
    assert not {samples[index] for index in used} & set(rows.texts[half:])
    assert set(rows.texts[half:]) <= set(samples)
    assert set(rows.texts[:half]) <= {text for text, _ in texts(60, 9)}
    test = run.prepared.test
    ref, _ = discriminator.measure_discriminator(
        run.tools, spec, test, written, student_of(run, spec, written)
    )
    assert run.tools.artifacts.read_json(ref)["rows"] == 2 * half


def test_a_discriminator_without_enough_unseen_texts_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The step runs without Prefect.
    monkeypatch.setattr(kd_run, "run_step", lambda step, *arguments: step(*arguments)[0])
    run, spec, written = with_test_rows(tmp_path)
    spec = replace(spec, negatives=76)
    where = run.prepared.test
    assert where is not None
    assert held_out(run.tools, spec, where, written) is None
    teach_all(run, spec, written)
    run._measure(spec, written, student_of(run, spec, written))
    assert run.discriminator is None
    assert run.notes == (
        "the classifier that selects texts is not measured: fewer than 20 test rows, or texts that took no part in its "
        "training. Add test rows or raise method.written",
    )


@pytest.mark.parametrize("best", [True, False], ids=["best", "accepted"])
def test_the_texts_taken_for_private_are_kept_of_each_class_its_part(best: bool) -> None:
    labels = ["a"] * 6 + ["b"] * 6
    scores = np.array([0.9, 0.8, 0.7, 0.2, 0.3, 0.6, 0.1, 0.2, 0.3, 0.4, 0.45, 0.05])
    spec = SelectSpec(0, 5, ("a", "b"), (0.6, 0.4), best, 3)
    stored = discriminator.choose_mask(labels, scores, spec)
    assert [int(stored[:6].sum()), int(stored[6:].sum())] == [3, 2]
    assert set(np.flatnonzero(stored[6:]) + 6) == {9, 10}, (
        "none of b is taken for private: the likeliest follow"
    )
    assert (scores[:6][stored[:6]] >= 0.5).all()
    if best:
        assert set(np.flatnonzero(stored[:6])) == {0, 1, 2}
    again = {
        tuple(discriminator.choose_mask(labels, scores, replace(spec, seed=seed)))
        for seed in range(20)
    }
    assert (len(again) == 1) == best


def test_nobody_without_the_secret_knows_the_shard_of_a_row() -> None:
    texts = [f"row {number}" for number in range(200)]
    left, other = (
        [shard_of(text, 8, 0, secret) for text in texts] for secret in (b"a" * 32, b"b" * 32)
    )
    same = sum(first == second for first, second in zip(left, other, strict=True))
    assert same < 60, "an eighth by chance"


def test_a_fixed_number_of_rows_needs_the_noise_of_a_replaced_row(tmp_path: Path) -> None:
    config = opened(tmp_path).config
    fixed = config.model_copy(update={"private": config.private.model_copy(update={"rows": 30})})
    plain, taken = (kd_releases(chosen) for chosen in (config, fixed))
    pairs = zip(plain.releases, taken.releases, strict=True)
    ratios = [after.noise.sensitivity / before.noise.sensitivity for before, after in pairs]
    assert ratios == [pytest.approx(2**0.5), pytest.approx(2.0)]
    assert taken.epsilon_exact <= 4.0


def test_without_noise_both_releases_are_without_noise(tmp_path: Path) -> None:
    guarantee = opened(tmp_path, privacy={"epsilon": "inf"}).prepared.guarantee
    assert {charge.mechanism for charge in guarantee.charges} == {"none"}
    assert guarantee.epsilon_exact == float("inf")
    assert guarantee.non_private


def test_neither_an_error_nor_a_warning_of_a_teachers_training_quotes_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(tmp_path)
    spec, written = run.teacher_spec(), written_by(run)

    def fail(_: StudentSpec, rows: Any, *__: Any) -> None:
        warnings.warn(f"'{rows.texts[0]}' is odd", stacklevel=1)
        raise InputError(f"'{rows.texts[0]}' cannot be learned")

    monkeypatch.setattr(teachers, "train_student", fail)
    with (
        warnings.catch_warnings(record=True, action="always") as shown,
        pytest.raises(PrivateInputError) as refused,
    ):
        teaching.teach(run.tools, spec, 0, written)
    assert not [warning for warning in shown if "is odd" in str(warning.message)]
    assert "PRIVATE-STEP" in str(refused.value)
    assert "cannot be learned" not in "".join(traceback.format_exception(refused.value))
    assert "cannot be learned" in refused.value.details.read_text()
