"""Step that measures the baselines of a run: without private data, and without texts.

The baseline without private data trains the same student on zero-shot texts of the same models, with labels as written
and with soft labels. All arms use the same kind of classifier and the same number of texts. A difference therefore
comes from the guidance. Two further floors need no language model: the class means of the released density, and the
public texts that it labels.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.embedding import Matrix
from tasks.evaluation.steps import TrainJob, correct_of, score_texts
from tasks.guidance.density import class_means
from tasks.guidance.soft_labels import class_probabilities
from tasks.metrics.usefulness import Accuracy, Baseline
from tasks.steps.reuse import json_once, step_key
from tasks.steps.step import as_json, step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.students.heads import fit_parameters
from tasks.students.soft_labels import soft_labels
from tasks.students.spec import NEXT_WORD, Scores, StudentSpec, settings
from tasks.students.training_set import LEARNED, SOFT, with_soft_labels
from tasks.writing.texts import content, read_samples, read_vectors, reference_rows

MAX_TEXTS = 10_000
"""Maximum texts of an arm: further ones cost as much again, and an accuracy is no more exact than its test rows."""
TOO_FEW = "the zero-shot texts cover fewer than two classes"


@dataclass(frozen=True, slots=True)
class BaselineJob:
    """The training texts of a student (`trained`) and the `zero_shot` texts, or why there are none (`unmeasured`).

    `balanced`: use the same number of zero-shot texts per class, for runs whose class shares come from noisy counts of
    private rows. `density`: the released density, None for other releases. `corpus`: public texts that it labels.
    """

    trained: TrainJob
    zero_shot: tuple[TextTable, ...]
    balanced: bool
    density: ArtifactRef | None = None
    unmeasured: str = ""
    corpus: tuple[TextTable, ...] = ()

    @property
    def most_texts(self) -> int:
        """Largest number of texts that an arm could have."""
        zero_shot, guided = (
            sum(entry.samples.rows for entry in written)
            for written in (self.zero_shot, self.trained.written)
        )
        return min(zero_shot, guided)

    @property
    def student(self) -> StudentSpec:
        """Student of all arms: the run's student without adaptation, or a linear one for fine-tuning."""
        student = self.trained.on_texts.student
        # Fine-tuning takes minutes, and the arms are compared with each other.
        if student.kind == "finetune":
            return StudentSpec("linear", seed=student.seed)
        return student


@step("measure baseline", versions={"baseline": 2}, value=as_json)
def measure_baseline(tools: Tools, job: BaselineJob) -> tuple[ArtifactRef, str]:
    """Write the test accuracy of all arms and of the release's class means to baseline.json.

    The step makes no model calls and reads no private rows.
    """
    path = f"runs/{tools.run_id}/baseline.json"
    trained = job.trained
    assert trained.test is not None
    parameters: dict[str, object] = {
        "student": settings(job.student),
        "labels": list(trained.labels),
    }
    parameters |= {
        "test": trained.test.content,
        "embedder": tools.embedder.identity,
        "balanced": job.balanced,
    }
    parameters |= {"density": "", "soft": "", "unmeasured": job.unmeasured}
    if job.density is not None:
        parameters["density"] = job.density.sha256
    if trained.soft is not None:
        parameters["soft"] = trained.soft.sha256
    # Left out where it changes nothing: the keys of smaller runs are those of earlier versions.
    if job.most_texts > MAX_TEXTS:
        parameters["most"] = MAX_TEXTS
    # One arm always learns soft labels.
    parameters |= fit_parameters(len(trained.labels), soft=job.student.kind == "linear")
    tables = {"samples": trained.written, "zero_shot": job.zero_shot}
    # Left out without a corpus, as in the keys of earlier versions.
    if job.corpus:
        tables["public"] = job.corpus
    inputs = {
        name: content([entry.samples for entry in written]) for name, written in tables.items()
    }
    key = step_key("baseline", parameters, inputs)
    return json_once(tools.artifacts, path, key, lambda: _measured(tools, job))


def read_baseline(values: Scores) -> tuple[Baseline | None, Accuracy | None, str]:
    """Return the arms of baseline.json or why they are not measured, and the accuracy of the release's class means."""
    release = None
    if values["release"] is not None:
        release = Accuracy(values["release"], values["rows"])
    if values["unmeasured"]:
        return None, release, values["unmeasured"]
    names = [name for name in ("zero_shot", "guided", "soft", "public") if name in values]
    arms = {
        name: Accuracy(
            values[name],
            values["rows"],
            values.get(f"{name}_texts", values["texts"]),
            values.get(f"{name}_loss"),
        )
        for name in names
    }
    return Baseline(values["student"], **arms), release, ""


def _measured(tools: Tools, job: BaselineJob) -> Scores:
    trained = job.trained
    seed = job.student.seed
    assert trained.test is not None
    frame, real = reference_rows(tools, trained.test)
    values: Scores = {"rows": len(frame), "release": None, "unmeasured": job.unmeasured}
    if job.density is not None:
        nearest = class_means(tools.artifacts, job.density).nearest(np.asarray(real))
        values["release"] = int((nearest == frame["label"].to_numpy(dtype=str)).sum())
    if job.unmeasured:
        return values
    zero_shot = read_samples(tools, job.zero_shot, LEARNED)
    guided = read_samples(tools, trained.written, LEARNED)
    # Equally many texts for all arms: more texts alone raise an accuracy.
    texts = min(_most(zero_shot, job.balanced), len(guided), MAX_TEXTS)
    chosen = sample_indices(zero_shot["label"].to_numpy(dtype=str), texts, seed, job.balanced)
    labels = zero_shot["label"].to_numpy(dtype=str)[chosen]
    has_classes = job.student.kind != NEXT_WORD
    if has_classes and len(set(labels)) < 2:
        return values | {"unmeasured": TOO_FEW}
    plain = replace(trained.on_texts, student=job.student)
    samples = zero_shot.iloc[chosen]
    vectors = read_vectors(tools, job.zero_shot, chosen)
    scores = {"zero_shot": score_texts(tools, plain, samples, vectors)}
    if has_classes:
        soft = soft_labels(vectors, vectors, labels, trained.labels).tolist()
        scores["soft"] = score_texts(tools, plain, samples.assign(**{SOFT: soft}), vectors)
    # One arm after the other: the vectors of two need not be in memory at once.
    del vectors
    chosen = sample_indices(guided["label"].to_numpy(dtype=str), texts, seed)
    samples = with_soft_labels(tools, guided.iloc[chosen], trained.soft)
    scores["guided"] = score_texts(
        tools, plain, samples, read_vectors(tools, trained.written, chosen)
    )
    public: Scores = {}
    if job.corpus:
        samples, vectors = _public(tools, job, texts)
        scores["public"] = score_texts(tools, plain, samples, vectors)
        # A corpus may be smaller than the arms of written texts.
        public = {"public_texts": len(samples)}
    # Next-word models are tested on words.
    values["rows"] = scores["guided"].get("words", len(frame))
    correct: Scores = {name: correct_of(score) for name, score in scores.items()}
    correct |= {f"{name}_loss": score["loss"] for name, score in scores.items() if "loss" in score}
    return values | correct | public | {"texts": texts, "student": job.student.kind}


def _public(tools: Tools, job: BaselineJob, texts: int) -> tuple[pd.DataFrame, Matrix]:
    """Return up to `texts` public texts with soft labels by a head of public texts alone, and their vectors."""
    samples = read_samples(tools, job.corpus, LEARNED)
    soft = class_probabilities(tools, job.trained.labels, job.density, job.corpus)
    samples = samples.assign(**{SOFT: soft.tolist()})
    chosen = sample_indices(samples["label"].to_numpy(dtype=str), texts, job.student.seed)
    return samples.iloc[chosen], read_vectors(tools, job.corpus, chosen)


def _most(samples: pd.DataFrame, balanced: bool) -> int:
    sizes = samples["label"].value_counts()
    if balanced and len(sizes):
        return int(sizes.min()) * len(sizes)
    return len(samples)


def sample_indices(
    labels: NDArray[np.str_], count: int, seed: int, balanced: bool = False
) -> NDArray[np.int64]:
    """Return the sorted indices of `count` texts, drawn with `seed` within each class.

    Classes keep their shares, or have the same number of texts (`balanced`).
    """
    draw = np.random.default_rng(seed)
    turns = np.empty(len(labels))
    for label in np.unique(labels):
        indices = np.flatnonzero(labels == label)
        # Every class takes its turns in [0, 1], so that the first `count` turns have each class in its share.
        turn = draw.permutation(len(indices)) + 0.5
        if not balanced:
            turn /= len(indices)
        turns[indices] = turn
    return np.sort(np.argsort(turns, kind="stable")[:count]).astype(np.int64)
