"""Usefulness of a run in reliable numbers: exact intervals, chance, equally many texts on both sides."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.rows import RowsRef
from flows.config.files import check_config
from flows.engine.tools import RunName, RunTools
from flows.methods.wasp.config import WaspConfig
from tasks.evaluation import baseline as baseline_step
from tasks.evaluation import steps as evaluation_steps
from tasks.evaluation.baseline import (
    TOO_FEW,
    BaselineJob,
    measure_baseline,
    read_baseline,
    sample_indices,
)
from tasks.evaluation.steps import (
    MeasureJob,
    TrainJob,
    correct_of,
    measure_iteration,
    score_texts,
    train_and_test,
)
from tasks.guidance.density import class_means
from tasks.guidance.soft_labels import label_softly
from tasks.metrics.registry import compared_names
from tasks.metrics.usefulness import ACCURACIES, Accuracy, Baseline, DiscriminatorTest, Usefulness
from tasks.private.density.features import features_of
from tasks.steps.reuse import step_key
from tasks.steps.values import Reference, TextTable
from tasks.students.spec import NEXT_WORD, StudentSpec
from tasks.students.training_set import SOFT
from tasks.writing.texts import embed_samples, read_samples, read_vectors
from tests.support.runs.pipeline import SMALL
from tests.support.runs.prepared_run import sample_rows

BASE = Baseline("linear", Accuracy(203, 300, 120), Accuracy(210, 300, 120), Accuracy(204, 300, 120))
GOOD = Usefulness(
    Accuracy(213, 300, 600), 0.17, "linear", BASE, "", Accuracy(219, 300, 600), Accuracy(215, 300)
)
WITH_CORPUS = replace(GOOD, baseline=replace(BASE, public=Accuracy(218, 300, 90)))


@pytest.mark.parametrize(("right", "rows"), [(0, 90), (1, 3), (45, 90), (90, 90), (813, 1000)])
def test_the_interval_is_the_exact_binomial_one(right: int, rows: int) -> None:
    low, high = Accuracy(right, rows).interval
    exact = binomtest(right, rows).proportion_ci(0.95, method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_a_useful_run_says_what_it_beats_and_warns_of_nothing() -> None:
    assert GOOD.line == (
        "new classifier of the exported texts 71.0 % (66-76, 600 texts) · the run's classifier, which also reads the "
        "noisy release 73.0 % (68-78, 600 texts) · class means of the release, without texts 71.7 % (66-77) · new "
        "classifier of as many texts as the baseline 70.0 % (64-75, 120 texts) · same models without private data "
        "68.0 % (62-73, 120 texts), soft labels · chance 17.0 %"
    )
    assert GOOD.basis == "300 test rows, 95 % Clopper-Pearson intervals"
    assert GOOD.warnings == ()


@pytest.mark.parametrize(
    ("right", "points", "verdict"),
    [
        (213, "-0.7", "the texts are below the floor, but 0 is within the interval"),
        (217, "+0.7", "no measured gain, 0 is within the interval"),
        (270, "+18.3", "a measured gain"),
        (107, "-36.0", "the texts are below the floor"),
    ],
)
def test_the_gain_over_the_best_floor_has_an_interval_and_a_verdict(
    right: int, points: str, verdict: str
) -> None:
    gain = replace(GOOD, run=Accuracy(right, 300, 600)).gain
    assert gain.floor.name == "release_accuracy"
    assert (f"{gain.points:+.1f}", gain.verdict) == (points, verdict)
    assert gain.low < gain.points < gain.high
    assert gain.high - gain.low > 100 * (GOOD.run.interval[1] - GOOD.run.interval[0]) / 2


def test_public_texts_that_the_release_labels_are_a_floor_of_their_own() -> None:
    gain = WITH_CORPUS.gain
    assert gain.floor.name == "public_accuracy"
    assert gain.points == pytest.approx(100 * (213 - 218) / 300)
    assert str(gain.floor) == (
        "public texts labelled by the release, without written ones 72.7 % (67-78, 90 texts)"
    )
    assert WITH_CORPUS.summary()["public"]["texts"] == 90
    assert GOOD.value("public_accuracy") is GOOD.summary()["public"] is None


def test_the_interval_of_a_gain_covers_the_difference_of_independent_classifiers() -> None:
    rng = np.random.default_rng(0)
    floors = Usefulness(Accuracy(0, 300, 600), 0.17, "linear", release=Accuracy(0, 300))
    covered = 0
    for ours, theirs in zip(
        rng.binomial(300, 0.78, 2000), rng.binomial(300, 0.70, 2000), strict=True
    ):
        gain = replace(
            floors, run=Accuracy(int(ours), 300, 600), release=Accuracy(int(theirs), 300)
        ).gain
        covered += gain.low <= 8.0 <= gain.high
    assert covered >= 0.935 * 2000


def test_a_run_without_floor_or_texts_has_no_gain() -> None:
    assert replace(GOOD, baseline=None, release=None).gain is None
    assert replace(GOOD, run=Accuracy(213, 300)).gain is None


def test_a_run_without_release_or_adaptation_names_neither() -> None:
    plain = replace(GOOD, adapted=None, release=None, baseline=replace(BASE, soft=None))
    names = [measured.name for measured in plain.measured]
    assert names == ["accuracy", "guided_accuracy", "zero_shot_accuracy"]
    assert plain.value("adapted_accuracy") is None
    assert plain.value("zero_shot_accuracy") == 203 / 300
    assert (
        replace(plain, run=Accuracy(213, 300)).measured[0].title
        == "classifier trained on the private records"
    )


def test_tracked_and_stored_accuracies_have_the_names_of_the_metrics() -> None:
    tracked = {name.rpartition("/")[2] for name in WITH_CORPUS.metrics()}
    assert set(ACCURACIES) <= tracked & set(compared_names())
    assert GOOD.metrics()["student/adapted_accuracy"] == 0.73
    assert GOOD.summary()["zero_shot_soft"]["value"] == 0.68


def test_an_interval_that_reaches_chance_is_a_warning() -> None:
    near = Usefulness(Accuracy(29, 200, 600), 0.1, "linear", unmeasured="no texts")
    assert not near.above_chance
    (warning,) = near.warnings
    assert warning.startswith(
        "student accuracy 14.5 % (10-20, 600 texts) is not above chance (10.0 %) on 200 test rows"
    )
    assert replace(near, run=Accuracy(36, 200, 600)).warnings == ()


@pytest.mark.parametrize(("guided", "warnings"), [(203, 1), (204, 1), (205, 0)])
def test_texts_that_teach_no_more_than_those_without_private_data_are_a_warning(
    guided: int, warnings: int
) -> None:
    run = replace(GOOD, baseline=replace(GOOD.baseline, guided=Accuracy(guided, 300, 120)))
    assert len(run.warnings) == warnings
    assert all("no gain from the private data is measured" in warning for warning in run.warnings)


def test_a_sample_keeps_the_shares_of_classes_or_makes_them_equal() -> None:
    labels = np.array(["a"] * 60 + ["b"] * 30 + ["c"] * 10)
    chosen = sample_indices(labels, 20, seed=1)
    assert sorted(pd.Series(labels[chosen]).value_counts().to_dict().items()) == [
        ("a", 12),
        ("b", 6),
        ("c", 2),
    ]
    equal = sample_indices(labels, 15, seed=1, balanced=True)
    assert set(pd.Series(labels[equal]).value_counts()) == {5}
    assert list(sample_indices(labels, 100, seed=1)) == list(range(100))
    assert list(sample_indices(labels, 20, seed=1)) == list(chosen)
    assert list(sample_indices(labels, 20, seed=2)) != list(chosen)


@pytest.mark.parametrize(("right", "warns"), [(45, True), (55, True), (70, False)])
def test_a_discriminator_near_chance_is_warned_about(right: int, warns: bool) -> None:
    measured = DiscriminatorTest(Accuracy(right, 100))
    assert bool(measured.warnings) == warns
    assert "50 test rows and 50 generated texts" in measured.sentence
    with_public = DiscriminatorTest(Accuracy(right, 100), has_public_queries=True)
    assert bool(with_public.warnings) == warns
    assert not any("public rows" in warning for warning in with_public.warnings)


class Desk:
    """The steps of a run on a folder: tables of texts whose labels are right, or those of the next class."""

    def __init__(self, home: Path) -> None:
        self.tools = RunTools(
            check_config(WaspConfig, SMALL, "the test"),
            home,
            RunName("r", "wasp", "desk", "f" * 64),
        )
        self.test = Reference("test", RowsRef("builtin:support_desk/test.parquet"), "content")
        self.rows = self.tools.read_rows(self.test.where)
        self.labels = tuple(sorted(self.rows["label"].unique()))

    def written(
        self,
        name: str,
        texts: int,
        shift: int = 0,
        keep: Callable[[Any], Any] = lambda table: table,
    ) -> TextTable:
        chosen = self.rows.groupby("label", group_keys=False).head(texts).reset_index(drop=True)
        moved = {
            label: self.labels[(n + shift) % len(self.labels)]
            for n, label in enumerate(self.labels)
        }
        table = sample_rows(chosen["text"].tolist(), chosen["label"].map(moved).tolist(), name)
        path = f"runs/r/iteration=0/plm={name}/samples.parquet"
        key = step_key("generate", {"plm": name}, {})
        samples = self.tools.artifacts.write_table(path, keep(table).reset_index(drop=True), key)
        return embed_samples(self.tools, TextTable(name, 0, samples))[0]

    def job(
        self, zero_shot: TextTable, guided: TextTable, kind: str = "linear", balanced: bool = False
    ) -> BaselineJob:
        spec = StudentSpec(kind)
        return BaselineJob(
            TrainJob((guided,), spec, self.labels, self.test), (zero_shot,), balanced
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def score(desk: Desk, job: TrainJob) -> dict[str, Any]:
    return dict(desk.tools.artifacts.read_json(train_and_test(desk.tools, job)[0]))


@pytest.mark.parametrize("kind", ["linear", "finetune"])
def test_both_sides_learn_from_equally_many_texts_with_one_student(desk: Desk, kind: str) -> None:
    job = desk.job(desk.written("wrong", 8, shift=1), desk.written("right", 20), kind)
    ref, _ = measure_baseline(desk.tools, job)
    baseline, release, unmeasured = read_baseline(desk.tools.artifacts.read_json(ref))
    assert (release, unmeasured) == (None, "")
    assert baseline.soft.texts == baseline.zero_shot.texts
    assert baseline.student == "linear"
    assert baseline.zero_shot.texts == baseline.guided.texts == 8 * len(desk.labels)
    assert baseline.zero_shot.rows == len(desk.rows)
    assert baseline.zero_shot.value < 0.2 < 0.4 < baseline.guided.value
    again, _ = measure_baseline(desk.tools, job)
    assert again.reused


def test_an_arm_has_a_limit_that_is_part_of_the_key_only_where_it_applies(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = desk.job(desk.written("many", 8), desk.written("right", 20))
    below = measure_baseline(desk.tools, job)[0]
    monkeypatch.setattr(baseline_step, "MAX_TEXTS", job.most_texts)
    assert measure_baseline(desk.tools, job)[0].key == below.key
    monkeypatch.setattr(baseline_step, "MAX_TEXTS", job.most_texts - 1)
    limited = measure_baseline(desk.tools, job)[0]
    assert limited.key != below.key
    values = desk.tools.artifacts.read_json(limited)
    assert values["texts"] == job.most_texts - 1


def test_measures_and_student_use_a_sample_of_many_texts_which_their_keys_then_name(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = (desk.written("one", 12), desk.written("two", 20))
    texts = sum(table.samples.rows for table in written)
    measure = MeasureJob(0, written, "test", desk.test, None, 0)
    train = TrainJob(written, StudentSpec("linear"), desk.labels, desk.test)
    words = replace(train, student=StudentSpec(NEXT_WORD))

    def keys() -> list[str]:
        measured = measure_iteration(desk.tools, measure)[0]
        return [measured.key, *(train_and_test(desk.tools, job)[0].key for job in (train, words))]

    below = keys()
    monkeypatch.setattr(evaluation_steps, "MAX_VECTORS", texts)
    assert keys() == below
    read: list[int] = []

    def read_some(tools: Any, tables: Any, chosen: Any = None) -> Any:
        vectors = read_vectors(tools, tables, chosen)
        read.append(len(vectors))
        return vectors

    monkeypatch.setattr(evaluation_steps, "read_vectors", read_some)
    monkeypatch.setattr(evaluation_steps, "MAX_VECTORS", 60)
    sampled = keys()
    assert [new == old for new, old in zip(sampled, below, strict=True)] == [False, False, True]
    assert read == [60, 60]
    values = desk.tools.artifacts.read_json(measure_iteration(desk.tools, measure)[0])
    assert values["rows"] == texts
    assert values["probe_accuracy"] > 0.3
    assert score(desk, train)["test"]["accuracy"] > 0.3


def test_chosen_vectors_are_those_of_all_in_the_order_of_the_texts(desk: Desk) -> None:
    # The second table has the lower numbers, so that the tables are not in the order of the texts.
    first = desk.written("first", 3, keep=lambda table: table.assign(sample_id=table.index + 900))
    second = desk.written("second", 4)
    texts = read_samples(desk.tools, (first, second), ["sample_id", "text"])["text"].tolist()
    expected = desk.tools.embedder.embed(texts)
    vectors = read_vectors(desk.tools, (first, second))
    assert vectors.tobytes() == expected.tobytes()
    mask = np.arange(len(texts)) % 3 > 0
    for chosen in (mask, np.array([5, 0, 0, len(texts) - 1])):
        some = read_vectors(desk.tools, (first, second), chosen)
        assert some.tobytes() == expected[chosen].tobytes()
    with pytest.raises(ArtifactError, match="Not every text has a vector"):
        read_vectors(desk.tools, (first, replace(second, vectors=None)))


def test_zero_shot_texts_are_thinned_to_what_the_run_kept_whatever_shares_private_rows_chose(
    desk: Desk,
) -> None:
    many, label = desk.written("many", 20), desk.labels[0]
    skewed = desk.written(
        "skewed",
        20,
        keep=lambda all: all[(all["label"] != label) | (all.groupby("label").cumcount() < 3)],
    )
    entry = desk.written("one", 5, keep=lambda table: table[table["label"] == label])
    for job, texts in (
        (desk.job(many, desk.written("few", 5)), 5 * len(desk.labels)),
        (desk.job(skewed, many, balanced=True), 3 * len(desk.labels)),
        (desk.job(entry, many), None),
    ):
        values = desk.tools.artifacts.read_json(measure_baseline(desk.tools, job)[0])
        assert values.get("texts") == texts
    assert read_baseline(values) == (None, None, TOO_FEW), "one class is no baseline"


def test_labels_by_a_density_mend_texts_of_wrong_classes(desk: Desk) -> None:
    """Texts of wrong classes, a density of the right ones, with more rows of the first class or not."""
    wrong = desk.written("wrong", 20, shift=1)
    labels, vectors = (
        desk.rows["label"].to_numpy(dtype=str),
        desk.tools.embedder.embed(desk.rows["text"].tolist()),
    )
    job = TrainJob((wrong,), StudentSpec("linear"), desk.labels, desk.test)
    correct, first = [correct_of(score(desk, job)["test"])], []
    for often in (1, 9):
        more = np.array([often, *[1] * (len(desk.labels) - 1)])
        sums = (
            np.stack([features_of(vectors[labels == label]).sum(axis=0) for label in desk.labels])
            * more[:, None]
        )
        table = pd.DataFrame({"sum": np.rint(sums * 2**20).astype(np.int64).ravel()})
        info = {"labels": list(desk.labels), "steps": 2**20, "scale_int": 1}
        path = f"runs/r/guidance-{often}/release.parquet"
        release = desk.tools.artifacts.write_table(
            path, table, step_key("guidance", {"often": often}, {}), info
        )
        nearest = class_means(desk.tools.artifacts, release).nearest(vectors)
        assert (nearest == labels).mean() > 0.5
        soft, _ = label_softly(desk.tools, desk.labels, release, False, (wrong,))
        correct.append(correct_of(score(desk, replace(job, soft=soft))["test"]))
        first.append(np.stack(desk.tools.artifacts.read_table(soft)[SOFT])[:, 0].mean())
    assert correct[1] > 100 > correct[0]
    assert first[1] > 1.5 * first[0]

    share = [0.9] + [0.1 / (len(desk.labels) - 1)] * (len(desk.labels) - 1)
    one_class = desk.rows.assign(label_soft=[share] * len(desk.rows))
    scores = score_texts(desk.tools, job, one_class, vectors)
    assert scores["accuracy"] == (labels == desk.labels[0]).mean()

    measured = BaselineJob(job, (), False, release, "no zero-shot texts")
    values = desk.tools.artifacts.read_json(measure_baseline(desk.tools, measured)[0])
    none, means, why = read_baseline(values)
    assert (none, why) == (None, "no zero-shot texts")
    assert means.value > 0.5
