"""Teachers on disjoint shards of the private rows, and the one door through which their answers leave.

Song et al. 2024, Eq. 1, after PATE (Papernot et al. 2017, 2018). Each teacher tells private texts from generated ones.
"Shuffle and deal out equally" would move other rows when one is added, and with them every teacher. Here a row's shard
is a keyed hash of its own text modulo the number of teachers: shards are equal up to chance, and one row more or less
changes one teacher and nothing else (the proof is `tasks.accounting.teachers.part_sensitivity`'s). What teachers answer
stays in the private zone until all of it is summed and gets its noise, in one transaction.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.errors import ArtifactError, InputError
from connectors.interfaces.ledger import Release
from connectors.interfaces.text_forms import normal_form
from tasks.accounting.teachers import ANSWER_STEPS
from tasks.core.reuse import make_once
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import PrivateRows, open_rows
from tasks.private.releases.keyphrase_release import CleanSums, NoisySums
from tasks.private.releases.parts import PartJob, noisy, request
from tasks.private.voting.release import private_vectors
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.train import load_student, train_student

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from connectors.interfaces.artifacts import ArtifactRef
    from connectors.interfaces.embedding import Matrix
    from tasks.accounting.teachers import PartNoise
    from tasks.core.tools import Tools

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

CLASSES: Final = ("generated", "private")
"""What a teacher tells apart; its answer is the probability of the second."""

UNTAUGHT: Final = "untaught"
"""File of a teacher whose shard is empty: it answers one half to everything."""

_ONE_EMBEDS = threading.Lock()
"""Teachers of a run start together, and only the first has to embed the private rows."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicTexts:
    """Generated or public texts, with vectors where teachers need some."""

    texts: Sequence[str]
    vectors: Matrix | None


@dataclass(frozen=True, slots=True)
class TeacherJob:
    """One teacher: `number` of `teachers`, trained as `student` says and kept below private/ under `key`.

    `seed` deals rows to shards, together with a secret of this state folder.
    """

    fingerprint: str
    number: int
    teachers: int
    student: StudentSpec
    seed: int
    key: StepKey


def shard_of(text: str, teachers: int, seed: int, secret: bytes) -> int:
    """Return the shard of a row, from its own text alone; equal texts lie in one shard."""
    told = f"{seed}\x00{normal_form(text)}".encode("utf-8", "surrogatepass")
    drawn = hashlib.blake2b(told, digest_size=8, key=secret, person=b"kd-shards").digest()
    return int.from_bytes(drawn) % teachers


def shard(texts: Sequence[str], number: int, job: TeacherJob, secret: bytes) -> list[int]:
    """Return the places of the rows of one shard, each text once, in an order that its texts alone decide."""
    first: dict[str, int] = {}
    for place, text in enumerate(texts):
        if shard_of(text, job.teachers, job.seed, secret) == number:
            name = normal_form(text)
            if name not in first or text < texts[first[name]]:
                first[name] = place
    return sorted(first.values(), key=lambda place: texts[place])


def train_teacher(tools: Tools, job: TeacherJob, negatives: PublicTexts) -> tuple[ArtifactRef, str]:
    """Train one teacher on its shard against generated texts and keep it in the private zone; nothing else is told.

    An empty shard, or anything else about its rows, changes neither the outcome of the step nor its words.
    """
    folder = f"private/teachers/{job.key.key[:32]}"

    def make() -> ArtifactRef:
        return tools.artifacts.write_folder(folder, lambda place: _train(tools, job, negatives, place), job.key)

    return make_once(tools.artifacts, folder, job.key, make)


def ask_teacher(tools: Tools, teacher: ArtifactRef, queries: PublicTexts, place: str) -> None:
    """Let one teacher answer all queries, and keep that at `place` in the private zone."""
    if tools.artifacts.read_private_arrays(place) is not None:
        return
    with sealed(tools.zone.folder):
        folder = tools.artifacts.read_folder(teacher)
        answers = np.full(len(queries.texts), 0.5)
        if not (folder / UNTAUGHT).exists():
            answers = load_student(folder)(queries.texts, queries.vectors).probabilities[:, 1]
        tools.artifacts.write_private_arrays(place, {"answers": answers})


def in_steps(answers: Floats) -> Ints:
    """Return one teacher's probabilities of both classes, (queries, 2), in whole steps that add up to ANSWER_STEPS.

    A probability that is no number says nothing: one half.
    """
    known = np.where(np.isfinite(answers), np.clip(answers, 0.0, 1.0), 0.5)
    private = np.rint(known * ANSWER_STEPS).astype(np.int64)
    return np.stack([ANSWER_STEPS - private, private], axis=1)


def clean_answers(answers: Sequence[Floats], asked: Sequence[int] | None = None) -> CleanSums:
    """Return the teachers' probabilities, summed over teachers, (queries, 2); of the queries `asked` if given."""
    total = sum((in_steps(one) for one in answers[1:]), start=in_steps(answers[0]))
    return CleanSums(total if asked is None else total[np.asarray(asked, dtype=np.int64)])


def clean_checks(answers: Sequence[Floats]) -> CleanSums:
    """Return the higher of the two sums of each query, (queries, 1): how sure the teachers are together."""
    return CleanSums(clean_answers(answers).sums.max(axis=1, keepdims=True))


def noisy_answers(answers: Sequence[Floats], noise: PartNoise, asked: Sequence[int] | None = None) -> NoisySums:
    """Return the noisy sums of the teachers' probabilities; with `asked` of these queries alone."""
    return noisy(clean_answers(answers, asked), noise)


def noisy_checks(answers: Sequence[Floats], noise: PartNoise) -> NoisySums:
    """Return how sure the teachers are of each query, with noise."""
    return noisy(clean_checks(answers), noise)


def release_answers(tools: Tools, job: PartJob, places: Sequence[str], asked: Sequence[int] | None = None) -> Release:
    """Return the noisy answers, or checks if `job` is about them, drawn now or read back from the ledger.

    `places`: where each teacher's answers lie in the private zone. All queries are one release: what is asked again is
    read back. Raises BudgetError, LedgerError, ArtifactError where a teacher's answers are gone.
    """

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            answers = [_kept(tools, place) for place in places]
            if job.noise.privacy.part == "checks":
                return noisy_checks(answers, job.noise).to_bytes()
            return noisy_answers(answers, job.noise, asked).to_bytes()

    return tools.ledger.release_once(request(tools, job), draw)


def _kept(tools: Tools, place: str) -> Floats:
    found = tools.artifacts.read_private_arrays(place)
    if found is None:
        raise ArtifactError(
            f"{place} is gone from the private zone; nothing was spent. Resume the run: it is made anew."
        )
    return np.asarray(found["answers"], dtype=np.float64)


def _train(tools: Tools, job: TeacherJob, negatives: PublicTexts, folder: Path) -> None:
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, job.fingerprint)
        places = shard(rows.texts, job.number, job, tools.zone.choice)
        folder.mkdir(parents=True, exist_ok=True)
        if not places:
            (folder / UNTAUGHT).write_bytes(b"")
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what libraries warn of may hang on the rows
            try:
                train_student(job.student, _rows(tools, rows, places, negatives), folder)
            except InputError as error:
                raise ValueError(str(error)) from None  # its words are for the owner of the rows


def _rows(tools: Tools, rows: PrivateRows, places: Sequence[int], negatives: PublicTexts) -> TrainingRows:
    """Return a shard and generated texts as rows of two classes that weigh the same together."""
    texts = [rows.texts[place] for place in places]
    vectors = None
    if negatives.vectors is not None:
        with _ONE_EMBEDS:
            mine = private_vectors(tools, rows)[list(places)]
        vectors = np.concatenate([mine, negatives.vectors])
    labels = [CLASSES[1]] * len(texts) + [CLASSES[0]] * len(negatives.texts)
    weights = [1 / len(texts)] * len(texts) + [1 / len(negatives.texts)] * len(negatives.texts)
    return TrainingRows([*texts, *negatives.texts], labels, CLASSES, vectors, weights)
