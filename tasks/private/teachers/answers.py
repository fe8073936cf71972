"""Trains teachers on disjoint shards of the private rows and releases the noisy sums of their answers.

Song et al. 2024, Eq. 1, after PATE (Papernot et al. 2017, 2018). Each teacher distinguishes private from generated
texts. To shuffle rows and split them equally would move other rows when one is added, and change every teacher. Here a
row's shard is a keyed hash of its own text modulo the number of teachers: shards have equal size up to chance, and one
row more or less changes one teacher and nothing else (proof in `TeacherPrivacy.sensitivity`). A teacher is deleted when
it has answered. The answers stay in the private zone until all of them are summed and get noise, in one transaction.
"""

import hashlib
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.embedding import Matrix
from connectors.interfaces.errors import ArtifactError, InputError
from connectors.interfaces.text_forms import normal_form
from tasks.accounting.integer_noise import SumNoise
from tasks.private.rows.quarantine import sealed
from tasks.private.rows.rows import OpenedRows, open_rows
from tasks.private.sums import OTHERS, AttackInputs, CleanSums, SumJob, require_part, write_sums
from tasks.private.teachers.promise import ANSWER_STEPS, CLASSES, TeacherPrivacy
from tasks.private.votes.ballot import usable
from tasks.private.votes.step import private_vectors
from tasks.steps.tools import Tools
from tasks.students.spec import PublicTexts, StudentSpec, TrainingRows
from tasks.students.train import load_student, train_student

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_EMBEDDING_LOCK = threading.Lock()
"""Teachers of a run start together; only the first has to embed the private rows."""


@dataclass(frozen=True, slots=True)
class TeacherJob:
    """One teacher: `number` of `teachers`, trained with the settings `student`.

    The seed of `student` and a secret of this state folder assign rows to shards.
    """

    fingerprint: str
    number: int
    teachers: int
    student: StudentSpec


def shard_of(text: str, teachers: int, seed: int, secret: bytes) -> int:
    """Return the shard of a row, from its text only; equal texts have the same shard."""
    content = f"{seed}\x00{normal_form(text)}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, digest_size=8, key=secret, person=b"kd-shards").digest()
    return int.from_bytes(digest) % teachers


def shard(texts: Sequence[str], job: TeacherJob, secret: bytes) -> list[int]:
    """Return the indices of the rows of a teacher's shard, each text once.

    Their order depends on the texts of the shard only.
    """
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        if shard_of(text, job.teachers, job.student.seed, secret) == job.number:
            # The proof counts equal texts once. Of their spellings the smallest stays, whatever the order of rows.
            name = normal_form(text)
            if name not in first or text < texts[first[name]]:
                first[name] = index
    return sorted(first.values(), key=lambda index: texts[index])


def teach_shard(
    tools: Tools, job: TeacherJob, negatives: PublicTexts, queries: PublicTexts, path: str
) -> None:
    """Train one teacher on its shard against generated texts; store its answers to all queries at `path`.

    Both are in the private zone. Nothing about its rows, not even an empty shard, changes the outcome or the message of
    the step; the answers of an empty shard are one half.
    """
    with sealed(tools.zone.folder):
        answers = shard_answers(tools, job, negatives, queries)
        tools.artifacts.write_private_arrays(path, {"answers": answers})


def shard_answers(
    tools: Tools, job: TeacherJob, negatives: PublicTexts, queries: PublicTexts
) -> Floats:
    """Return the answers (queries) of one teacher of its shard and `negatives`; as private as its rows."""
    answers = np.full(len(queries.texts), 0.5)
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, job.fingerprint)
        indices = shard(rows.texts, job, tools.zone.choice)
        vectors = None
        if indices and negatives.vectors is not None:
            vectors = _vectors(tools, rows)
            is_usable = usable(vectors)
            indices = [index for index in indices if is_usable[index]]
        if indices:
            answers = _answers(tools, job, _rows(rows, vectors, indices, negatives), queries)
    return answers


def in_steps(answers: Floats) -> Ints:
    """Return a teacher's probabilities of both classes, (queries, 2), in steps.

    The two add up to ANSWER_STEPS. A probability that is not finite counts as one half.
    """
    probabilities = np.where(np.isfinite(answers), np.clip(answers, 0.0, 1.0), 0.5)
    private = np.rint(probabilities * ANSWER_STEPS).astype(np.int64)
    # The second number is computed from the first in integers, so rounding adds nothing to the sensitivity.
    return np.stack([ANSWER_STEPS - private, private], axis=1)


def clean_answers(answers: Sequence[Floats]) -> CleanSums:
    """Return the teachers' summed probabilities, (queries, 2)."""
    return CleanSums(
        sum((in_steps(teacher) for teacher in answers[1:]), start=in_steps(answers[0]))
    )


def release_answers(
    tools: Tools, job: SumJob[TeacherPrivacy], paths: Sequence[str]
) -> tuple[ArtifactRef, str]:
    """Write the noisy answers to all queries, drawn now or read from the ledger.

    `paths`: the files of the teachers' answers in the private zone. All queries are one release: repeated queries are
    read from the ledger. Also raises ArtifactError if a teacher's answers are gone.
    """
    require_part(job.noise, "answers")
    return write_sums(
        tools, job, lambda: clean_answers([stored_answers(tools, path) for path in paths])
    )


def stored_answers(tools: Tools, path: str) -> Floats:
    """Return one teacher's answers from the private zone; ArtifactError if they are gone."""
    arrays = tools.artifacts.read_private_arrays(path)
    if arrays is None:
        raise ArtifactError(
            f"{path}: the file is missing; nothing was spent. Resume the run to create it again."
        )
    return np.asarray(arrays["answers"], dtype=np.float64)


def _answers(tools: Tools, job: TeacherJob, rows: TrainingRows, queries: PublicTexts) -> Floats:
    """Return the answers of a teacher, which a folder of the private zone holds meanwhile."""
    tools.zone.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        TemporaryDirectory(".tmp", ".teacher.", tools.zone.folder) as folder,
        warnings.catch_warnings(),
    ):
        # Warnings of libraries may depend on the rows.
        warnings.simplefilter("ignore")
        try:
            train_student(job.student, rows, Path(folder))
        except InputError as error:
            # No error of the product: `sealed` then keeps its message for the owner of the rows.
            raise ValueError(str(error)) from None
        return load_student(Path(folder))(queries.texts, queries.vectors).probabilities[:, 1]


def _vectors(tools: Tools, rows: OpenedRows) -> Matrix:
    with _EMBEDDING_LOCK:
        return private_vectors(tools, rows)


def _rows(
    rows: OpenedRows, vectors: Matrix | None, indices: Sequence[int], negatives: PublicTexts
) -> TrainingRows:
    """Return a shard and generated texts as two classes with equal total weight."""
    texts = [rows.texts[index] for index in indices]
    if vectors is not None and negatives.vectors is not None:
        vectors = np.concatenate([vectors[list(indices)], negatives.vectors])
    labels = [CLASSES[1]] * len(texts) + [CLASSES[0]] * len(negatives.texts)
    weights = [1 / len(texts)] * len(texts) + [1 / len(negatives.texts)] * len(negatives.texts)
    return TrainingRows([*texts, *negatives.texts], labels, CLASSES, vectors, weights)


def answers_canary(noise: SumNoise[TeacherPrivacy]) -> AttackInputs:
    """Return the attack: the canary is a row that turns its teacher from one class to the other."""
    queries = noise.privacy.numbers
    others = (np.full(queries, 0.5),) * OTHERS
    return AttackInputs((*others, np.zeros(queries)), (*others, np.ones(queries)), clean_answers)
