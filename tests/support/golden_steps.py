"""Keys of every step for fixed inputs, and the version of every step.

A step looks for a finished artifact of its key before it reads or draws anything. `Recorder` replaces artifacts and
ledger of a run, records each request, and ends the step.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.ledger import Charge, ReleaseRequest
from connectors.interfaces.rows import PrivateRef, RowsRef, TermsRef
from flows.config.task_files import load_task
from tasks.accounting.integer_noise import calibrate_sums
from tasks.evaluation import baseline
from tasks.evaluation import steps as evaluation
from tasks.guidance import density, discriminator, evolution, fusegen, soft_labels
from tasks.guidance import phrases as keyphrases
from tasks.guidance.survivors import Survival
from tasks.private.density import step as density_step
from tasks.private.density.promise import DensityPrivacy
from tasks.private.exposure import step as plain_student
from tasks.private.exposure.release import ExposureRelease
from tasks.private.parties.coordinator import Federation, federated_vote
from tasks.private.parties.promise import Parties
from tasks.private.phrases import step as phrases_step
from tasks.private.phrases.features import SequenceChoice, Shape
from tasks.private.phrases.promise import PartPrivacy
from tasks.private.teachers import step as teachers
from tasks.private.teachers.promise import TeacherPrivacy
from tasks.private.training import classifier_step as dp_classifier
from tasks.private.training import step as dp_sgd
from tasks.private.training.promise import Training, TrainingNoise
from tasks.private.training.recipe import ClassifySpec, PaidTraining, TuneSpec
from tasks.private.votes import step as vote
from tasks.private.votes.promise import VotePrivacy, calibrate
from tasks.steps.reuse import all_versions, step_key
from tasks.steps.values import ChargedDataset, Reference, TextTable
from tasks.students import training_set
from tasks.students.spec import StudentSpec
from tasks.writing import texts
from tasks.writing.generate import WriteJob
from tests.support.runs.prepared_run import sample_rows

CLASSES = ("login_problem", "billing_question")
PAYER = ChargedDataset("desk", "fingerprint")
STUDENT = StudentSpec("linear")
TRANSFORMER = StudentSpec("finetune", epochs=2)
EPSILON = 4.0
DELTA = 1e-5


class StepEndedError(Exception):
    """A step needed more than its key."""


class Recorder:
    """Artifacts and ledger of a run that has finished nothing yet.

    A charged step goes on to its release; a free one ends at the first artifact that it looks for.
    """

    def __init__(self, is_charged: bool) -> None:
        self.is_charged = is_charged
        self.artifacts: list[tuple[str, StepKey]] = []
        self.releases: list[ReleaseRequest] = []

    def look_up(self, path: str, key: StepKey) -> tuple[None, str]:
        """Note an artifact that a step looks for."""
        self.artifacts.append((path, key))
        if not self.is_charged:
            raise StepEndedError
        return None, "absent"

    def find(self, path: str, key: StepKey) -> None:
        """Note a further artifact that a step looks for."""
        self.artifacts.append((path, key))

    def released(self, dataset: str, key: str) -> bool:
        """Return False: the ledger is empty."""
        return False

    def release_once(self, request: ReleaseRequest, *_: object) -> NoReturn:
        """Note a release, and end the step before it draws."""
        self.releases.append(request)
        raise StepEndedError

    def read_private_arrays(self, path: str) -> NoReturn:
        """Note the answers of a teacher, whose path has the key, and end the step."""
        self.artifacts.append((path, step_key("teach", {}, {})))
        raise StepEndedError

    def read_table(self, ref: ArtifactRef, _: Sequence[str] | None = None) -> pd.DataFrame:
        """Return six texts with all columns, or the terms of a vocabulary."""
        if ref.step == "choose_terms":
            return pd.DataFrame({"number": [0, 1], "term": ["router", "invoice"], "count": [9, 8]})
        return sample_rows([f"text {number}" for number in range(6)], [*CLASSES] * 3, ref.path)

    def read_matrix(self, ref: ArtifactRef) -> Any:
        """Return the vectors of six texts."""
        return 1 + np.eye(6, 4, dtype=np.float32)

    def read_matrix_blocks(self, ref: ArtifactRef) -> Iterator[Any]:
        """Yield the vectors of six texts."""
        yield self.read_matrix(ref)

    def info(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return no further facts about a table."""
        return {}

    def read_text(self, path: str) -> None:
        """Return None: no step has stopped the run."""

    def __getattr__(self, name: str) -> NoReturn:
        raise StepEndedError(name)


class StandIns(SimpleNamespace):
    """Tools of a run; a step that asks for a further one ends."""

    def __getattr__(self, name: str) -> NoReturn:
        raise StepEndedError(name)


def tools_of(recorder: Recorder) -> Any:
    """Return the tools of a run whose models, rows and files are stand-ins."""
    where = RowsRef("rows.parquet", rows=60, of=120)
    return StandIns(
        run_id="run",
        artifacts=recorder,
        ledger=recorder,
        embedder=SimpleNamespace(identity="embedder"),
        term_embedder=SimpleNamespace(identity="embedder of terms"),
        private=PrivateRef("desk", where),
        model=lambda name: SimpleNamespace(identity=f"model {name}"),
        weights=lambda name: SimpleNamespace(content=f"weights of {name}", folder=None),
        read_rows=lambda where: pd.DataFrame(
            {"row": [0, 1], "text": ["a", "b"], "label": [*CLASSES]}
        ),
        read_terms=lambda where: ("router", "invoice", "parcel"),
    )


# --- fixed inputs
def ref(name: str, step: str = "step") -> ArtifactRef:
    """Return a finished file of six rows."""
    return ArtifactRef(f"{name}.parquet", f"hash of {name}", f"key of {name}", step, 6)


def written(plm: str = "clerk", iteration: int = 0) -> TextTable:
    """Return texts of a model with their vectors."""
    return TextTable(
        plm, iteration, ref(f"{plm} {iteration}"), ref(f"vectors of {plm} {iteration}")
    )


TEXTS = (written(), written("novelist"))
TEST = Reference("test", RowsRef("test.parquet"), "content of test")
PUBLIC = Reference("public", RowsRef("public.parquet"), "content of public")
RELEASE = ref("release")
TERMS = phrases_step.Terms(ref("terms", "choose_terms"), ref("vectors of terms"))
JOB = WriteJob(
    load_task("support_desk"),
    "clerk",
    count=12,
    plm_index=0,
    iteration=1,
    seed=0,
    examples_per_prompt=4,
)


def votes(**changes: Any) -> vote.VoteSpec:
    """Return a vote of a run with three."""
    return vote.VoteSpec(1, PAYER, calibrate(VotePrivacy(EPSILON, DELTA, 3, **changes)), "all", {})


def persons() -> vote.VoteSpec:
    """Return a vote of persons."""
    return votes(protects="person", rows_per_person=3, aggregation="sum")


def estimate(tools: Any, **changes: Any) -> Any:
    """Run the step that releases a density."""
    noise = calibrate_sums(DensityPrivacy(EPSILON, DELTA, **changes))
    return density_step.estimate_density(tools, PAYER, noise, dict.fromkeys(CLASSES, 1), TEXTS)


def weighing(**changes: Any) -> density.WeighJob:
    """Return a job that turns a release into weights of models."""
    values: dict[str, Any] = {
        "weighting": True,
        "previous": {"clerk": 0.5, "novelist": 0.5},
    } | changes
    return density.WeighJob(1, ("clerk", "novelist"), **values)


def words(setting: Any = "gaussian") -> phrases_step.VocabularySpec:
    """Return the release of a vocabulary."""
    noise = calibrate_sums(PartPrivacy("vocabulary", EPSILON, DELTA, setting))
    return phrases_step.VocabularySpec(PAYER, noise, TermsRef("terms.txt"), 30, 0.5)


def phrases(setting: Any = "gaussian") -> phrases_step.DensitySpec:
    """Return the release of densities of phrases."""
    noise = calibrate_sums(PartPrivacy("density", EPSILON, DELTA, setting, frequencies=20))
    shape = Shape("independent", 4, 20)
    return phrases_step.DensitySpec(PAYER, noise, shape, SequenceChoice(8), CLASSES, 18, 0)


def counting(tools: Any, **changes: Any) -> Any:
    """Run the step that releases label counts."""
    return teachers.count_labels(
        tools, PAYER, calibrate_sums(TeacherPrivacy("labels", 0.4, DELTA, 1, **changes)), CLASSES
    )


def teaching(public: Reference | None = None, **changes: Any) -> teachers.TeacherSpec:
    """Return teachers and the release of their answers."""
    noise = calibrate_sums(TeacherPrivacy("answers", EPSILON, DELTA, 4, **changes))
    return teachers.TeacherSpec(PAYER, noise, STUDENT, 3, 2, public)


def paid(epsilon: float = EPSILON) -> PaidTraining:
    """Return a training of 12 steps that is paid for.

    Its noise is written down, because the last digits of a calibrated one differ between machines.
    """
    multiplier = 0.0 if math.isinf(epsilon) else 2.125
    noise = TrainingNoise(Training(12, 60, 120), multiplier, epsilon, epsilon, DELTA)
    return PaidTraining(PAYER, noise, 0.05)


def tuning(epsilon: float = EPSILON) -> TuneSpec:
    """Return the training of a language model."""
    controls = {"login_problem": "Text:"}
    return TuneSpec(paid=paid(epsilon), plm="learner", controls=controls, tokens=64, rank=2, seed=0)


def classifying(labels: tuple[str, ...] = CLASSES) -> ClassifySpec:
    """Return the training of a classifier."""
    return ClassifySpec(paid=paid(), student=STUDENT, labels=labels, against=120)


def selecting() -> discriminator.SelectSpec:
    """Return a selection of texts."""
    return discriminator.SelectSpec(0, 4, CLASSES, (0.5, 0.5), True, 0)


def training(**changes: Any) -> evaluation.TrainJob:
    """Return the training of a student."""
    values: dict[str, Any] = {"student": STUDENT} | changes
    return evaluation.TrainJob(TEXTS, labels=CLASSES, test=TEST, **values)


def exposure() -> Charge:
    """Return the charge of a training without noise."""
    (charge,) = ExposureRelease().charges()
    return charge


FEDERATION = Federation("wasp", {"a": b"A", "b": b"B"}, b"C", Parties(2, 2, 1), 1.0)

CHARGED: dict[str, Callable[[Any], Any]] = {
    "vote": lambda tools: vote.vote(tools, votes(), TEXTS),
    "vote, replacing": lambda tools: vote.vote(tools, votes(adjacency="replace_one"), TEXTS),
    "vote of persons": lambda tools: vote.vote(tools, persons(), TEXTS),
    "vote, near": lambda tools: vote.vote(tools, votes(sides=1, votes=1), TEXTS),
    "vote without noise": lambda tools: vote.vote(
        tools, vote.VoteSpec(0, PAYER, calibrate(VotePrivacy(math.inf, DELTA, 3)), "class"), TEXTS
    ),
    "federated_vote": lambda tools: federated_vote(tools, votes(), TEXTS, FEDERATION, {}, print),
    "guidance": estimate,
    "guidance, replacing": lambda tools: estimate(tools, adjacency="replace_one"),
    "guidance of persons": lambda tools: estimate(tools, protects="person", rows_per_person=3),
    "vocabulary": lambda tools: phrases_step.count_terms(tools, words()),
    "vocabulary, Laplace": lambda tools: phrases_step.count_terms(tools, words("pure")),
    "density": lambda tools: phrases_step.estimate_densities(tools, phrases(), TERMS),
    "density, paper": lambda tools: phrases_step.estimate_densities(tools, phrases("paper"), TERMS),
    "labels": counting,
    "labels without noise": lambda tools: counting(tools, kind="none"),
    "teach": lambda tools: teachers.teach(tools, teaching(), 1, TEXTS),
    "answers": lambda tools: teachers.ask_teachers(tools, teaching(), TEXTS),
    "answers, Laplace": lambda tools: teachers.ask_teachers(tools, teaching(kind="laplace"), TEXTS),
    "answers with public rows": lambda tools: teachers.ask_teachers(tools, teaching(PUBLIC), TEXTS),
    "tune": lambda tools: dp_sgd.tune(tools, tuning()),
    "tune without noise": lambda tools: dp_sgd.tune(tools, tuning(math.inf)),
    "classify": lambda tools: dp_classifier.classify(tools, classifying()),
    "classify against texts": lambda tools: dp_classifier.classify(tools, classifying(()), TEXTS),
    "plain_train": lambda tools: plain_student.train_on_private(
        tools, PAYER, exposure(), TRANSFORMER, CLASSES, TEST
    ),
}
"""A call of every charged step with fixed inputs; further calls of a step that has several forms of its key."""

FREE: dict[str, Callable[[Any], Any]] = {
    "generate": lambda tools: texts.write_samples(tools, JOB),
    "generate, shared draws": lambda tools: texts.write_samples(
        tools, replace(JOB, texts_per_prompt=4)
    ),
    "embed": lambda tools: texts.embed_samples(tools, TEXTS[0]),
    "reference": lambda tools: texts.reference_rows(tools, TEST),
    "collect": lambda tools: training_set.collect(tools, TEXTS),
    "collect with soft labels": lambda tools: training_set.collect(tools, TEXTS, ref("soft")),
    "select": lambda tools: density.select_examples(tools, 1, 4, False, RELEASE, TEXTS),
    "select_matching": lambda tools: density.select_examples(tools, 1, 4, True, RELEASE, TEXTS),
    "weigh": lambda tools: density.weigh_models(tools, weighing(), RELEASE, TEXTS),
    "weigh, equal": lambda tools: density.weigh_models(
        tools, weighing(weighting=False), RELEASE, TEXTS
    ),
    "weigh_matching": lambda tools: density.weigh_models(
        tools, weighing(dense=True), RELEASE, TEXTS
    ),
    "choose_terms": lambda tools: keyphrases.choose_terms(tools, words(), RELEASE),
    "draw_phrases": lambda tools: keyphrases.draw_phrases(tools, phrases(), TERMS, RELEASE),
    "phrases": lambda tools: keyphrases.phrases_as_texts(tools, ref("sequences"), CLASSES, 18),
    "distill": lambda tools: discriminator.train_discriminator(
        tools, teaching(), TEXTS, ref("answers")
    ),
    "select_texts": lambda tools: discriminator.select_texts(
        tools, selecting(), TEXTS, ref("discriminator")
    ),
    "select_texts by chance": lambda tools: discriminator.select_texts(
        tools, selecting(), TEXTS, None
    ),
    "measure_discriminator": lambda tools: discriminator.measure_discriminator(
        tools, teaching(), TEST, TEXTS, ref("discriminator")
    ),
    "test_classifier": lambda tools: dp_classifier.test_classifier(
        tools, classifying(), dp_sgd.Tuned(RELEASE, ref("model")), TEST
    ),
    "average": lambda tools: evolution.look_ahead(tools, TEXTS[0], [written("clerk", 1)]),
    "survive": lambda tools: evolution.survive(
        tools, 1, Survival(dict.fromkeys(CLASSES, 3)), RELEASE, TEXTS
    ),
    "survive, united": lambda tools: evolution.unite(tools, TEXTS),
    "judge": lambda tools: fusegen.judge(tools, "clerk", 1, CLASSES, STUDENT, TEXTS),
    "fuse": lambda tools: fusegen.fuse(tools, 1, CLASSES, 4, [ref("judgement")], TEXTS),
    "soft_labels": lambda tools: soft_labels.label_softly(tools, CLASSES, None, False, TEXTS),
    "soft_labels by a density": lambda tools: soft_labels.label_softly(
        tools, CLASSES, RELEASE, True, TEXTS
    ),
    "measure": lambda tools: evaluation.measure_iteration(
        tools, evaluation.MeasureJob(1, TEXTS, "test", TEST, PUBLIC, 0)
    ),
    "train": lambda tools: evaluation.train_and_test(tools, training()),
    "train, fine-tuned, soft labels": lambda tools: evaluation.train_and_test(
        tools, training(student=TRANSFORMER, soft=ref("soft"))
    ),
    "train, adapted": lambda tools: evaluation.train_and_test(
        tools, training(student=StudentSpec("mlp", adaptation="coral"), unlabelled=PUBLIC)
    ),
    "baseline": lambda tools: baseline.measure_baseline(
        tools, baseline.BaselineJob(training(), TEXTS[:1], False, RELEASE)
    ),
}
"""The same of every step without a charge."""

PARTY_VOTE = {"step": "key of the vote"}
"""Parameters of a party's vote, whose step runs only among several parties."""


def keys_of_steps() -> dict[str, Any]:
    """Return the keys of all steps for fixed inputs."""
    charged = {name: keyed(call, Recorder(is_charged=True)) for name, call in CHARGED.items()}
    free = {name: keyed(call, Recorder(is_charged=False)) for name, call in FREE.items()}
    party = described(step_key("party_vote", PARTY_VOTE, {"transcript": "00"}))
    return charged | free | {"party_vote": {"artifacts": [party], "releases": []}}


def keyed(call: Callable[[Any], Any], recorder: Recorder) -> dict[str, Any]:
    """Return what a step looks for and what it would release, with its keys."""
    with suppress(StepEndedError):
        call(tools_of(recorder))
    artifacts = [{"path": path} | described(key) for path, key in recorder.artifacts]
    releases = [
        {"slot": made.slot, "key": made.step_key, "charge": made.charge}
        for made in recorder.releases
    ]
    return {"artifacts": artifacts, "releases": releases}


def described(key: StepKey) -> dict[str, Any]:
    """Return a key and what it is a hash of; without the task, which is long."""
    parameters = {name: value for name, value in key.parameters.items() if name != "card"}
    return {
        "step": key.step,
        "version": key.version,
        "parameters": parameters,
        "inputs": dict(key.inputs),
        "key": key.key,
    }


def versions_of_steps() -> dict[str, int]:
    """Return the version of every step."""
    return all_versions()
