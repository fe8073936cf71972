"""Steps of tutor and teachers: noisy label counts; train and query each teacher, and release all answers.

Song et al. 2024, Eq. 3 and Eq. 1. Only answers.py and labels.py read private rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import InputError
from tasks.accounting.integer_noise import SumNoise
from tasks.private.sums import SumJob, sum_job
from tasks.private.teachers.answers import TeacherJob, release_answers, teach_shard
from tasks.private.teachers.labels import release_labels
from tasks.private.teachers.promise import TeacherPrivacy, public_part
from tasks.steps.reuse import step_key
from tasks.steps.step import always, paid_step
from tasks.steps.tools import Tools
from tasks.steps.values import ChargedDataset, Reference, TextTable
from tasks.students.spec import PublicTexts, StudentSpec, settings
from tasks.students.training_set import embedder_of, public_texts
from tasks.writing.class_balance import Shares, shares_of
from tasks.writing.prompts import seed_of
from tasks.writing.texts import content, reference_rows
from tasks.writing.usable_texts import require_usable


@dataclass(frozen=True, slots=True)
class TeacherSpec:
    """Teachers, their answers, and the student that learns from them.

    `student`: training settings and seed of teachers and student. There are `teachers` (M). Each learns from
    `negatives` generated texts and labels `queries` other texts, half of them `public` rows if there are any.
    """

    payer: ChargedDataset
    answers: SumNoise[TeacherPrivacy]
    student: StudentSpec
    teachers: int
    negatives: int
    public: Reference | None = None

    @property
    def queries(self) -> int:
        """Number of texts that the teachers label."""
        return self.answers.privacy.numbers

    @property
    def public_queries(self) -> int:
        """Number of queries that are public rows."""
        if self.public is None:
            return 0
        return public_part(self.queries)


@paid_step("count labels", versions={"labels": 1})
def count_labels(
    tools: Tools, payer: ChargedDataset, noise: SumNoise[TeacherPrivacy], labels: tuple[str, ...]
) -> tuple[ArtifactRef, str]:
    """Release the number of private rows per class to labels/release.parquet."""
    job = sum_job(
        tools, payer, noise, {"numbers": noise.privacy.numbers, "labels": list(labels)}, {}
    )
    return release_labels(tools, job, labels)


def read_shares(tools: Tools, release: ArtifactRef) -> Shares:
    """Return the tutor's class shares from a release of label counts."""
    return shares_of(tools.artifacts.read_table(release)["sum"].to_numpy())


def shown_to(
    samples: int, number: int, spec: TeacherSpec
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the queries among `samples` texts and the texts for teacher `number`: indices by sample id.

    The seed draws both, and they are disjoint. Raises InputError if there are too few texts.
    """
    queries = spec.queries - spec.public_queries
    if samples <= queries:
        raise InputError(
            f"discriminator.queries: the models wrote {samples} texts and {queries} are queries, which leaves no "
            "texts for the teachers to learn from. Lower it or generate more texts. No budget was spent on teachers."
        )
    # All teachers answer the same queries, so the seed of the queries has no number of a teacher.
    order = np.random.default_rng(seed_of("queries", spec.student.seed)).permutation(samples)
    rest = order[queries:]
    drawn = np.random.default_rng(seed_of("negatives", spec.student.seed, number)).permutation(
        rest
    )[: spec.negatives]
    return tuple(sorted(order[:queries].tolist())), tuple(sorted(drawn.tolist()))


def shown_to_any(samples: int, spec: TeacherSpec) -> set[int]:
    """Return the indices of all texts that are queries, or that a teacher learns from."""
    shown = [shown_to(samples, number, spec) for number in range(spec.teachers)]
    return {index for parts in shown for part in parts for index in part}


@paid_step(
    "teacher {number}", versions={"teach": 1}, value=lambda *_: None, runs_in_flow_process=always
)
def teach(
    tools: Tools, spec: TeacherSpec, number: int, written: Sequence[TextTable]
) -> tuple[ArtifactRef | None, str]:
    """Train teacher `number` and store its answers in the private zone, unless they are stored or released."""
    # The files of the answers may be gone when their sum is in the ledger; training again would change nothing.
    if tools.ledger.released(spec.payer.dataset, answers_job(tools, spec, written).key.key):
        return None, "not needed: the answers of all teachers are already released"
    path = _answers_path(tools, spec, number, written)
    if tools.artifacts.read_private_arrays(path) is not None:
        return None, "reused because its answers are stored"
    require_usable(tools, written)
    queries = queries_of(tools, spec, written)
    _, negatives = shown_to(_texts(written), number, spec)
    job = TeacherJob(spec.payer.fingerprint, number, spec.teachers, spec.student)
    teach_shard(tools, job, public_texts(tools, written, negatives, spec.student), queries, path)
    return ArtifactRef(path, "", "", "teach", 0), "trained because it has no answers yet"


@paid_step("ask teachers", versions={"answers": 1}, runs_in_flow_process=always)
def ask_teachers(
    tools: Tools, spec: TeacherSpec, written: Sequence[TextTable]
) -> tuple[ArtifactRef, str]:
    """Release the teachers' summed answers and write them to answers/release.parquet."""
    job = answers_job(tools, spec, written)
    paths = [_answers_path(tools, spec, number, written) for number in range(spec.teachers)]
    return release_answers(tools, job, paths)


def answers_job(
    tools: Tools, spec: TeacherSpec, written: Sequence[TextTable]
) -> SumJob[TeacherPrivacy]:
    """Return the release of the teachers' answers, whose key covers all that they depend on."""
    parameters = {"numbers": spec.answers.privacy.numbers} | _parameters(tools, spec)
    return sum_job(tools, spec.payer, spec.answers, parameters, _inputs(written))


def _parameters(tools: Tools, spec: TeacherSpec) -> dict[str, object]:
    """Return the key parameters of the answers in addition to rows and texts."""
    parameters: dict[str, object] = {
        "teachers": spec.teachers,
        "queries": spec.queries,
        "negatives": spec.negatives,
        "student": settings(spec.student),
        "seed": spec.student.seed,
        "embedder": embedder_of(tools, spec.student),
    }
    # Left out without public rows: an empty value would change the keys of runs that never had them.
    if spec.public is not None:
        parameters["public"] = spec.public.content
    return parameters


def _inputs(written: Sequence[TextTable]) -> dict[str, str]:
    return {"samples": content([entry.samples for entry in written])}


def _answers_path(
    tools: Tools, spec: TeacherSpec, number: int, written: Sequence[TextTable]
) -> str:
    more = {"number": number, "private": spec.payer.fingerprint, "rows": tools.private.where.choice}
    key = step_key("teach", _parameters(tools, spec) | more, _inputs(written))
    return f"private/teachers/{key.key[:32]}.npz"


def _texts(written: Sequence[TextTable]) -> int:
    return sum(entry.samples.rows for entry in written)


def queries_of(tools: Tools, spec: TeacherSpec, written: Sequence[TextTable]) -> PublicTexts:
    """Return the texts that teachers label: generated texts and as many public rows, shuffled by the seed.

    A student that learns from both kinds can separate them; teachers that recognise every generated text give it one
    class alone. Raises InputError if there are too few public rows.
    """
    generated = public_texts(tools, written, shown_to(_texts(written), 0, spec)[0], spec.student)
    if spec.public is None:
        return generated
    frame, vectors = reference_rows(tools, spec.public)
    number = spec.public_queries
    random = np.random.default_rng(seed_of("public queries", spec.student.seed))
    if len(frame) < number:
        raise InputError(
            f"public: it has {len(frame)} rows, but {number} of {spec.queries} discriminator.queries are public rows. "
            "Lower discriminator.queries, or add rows. No budget was spent on teachers."
        )
    rows = random.permutation(len(frame))[:number]
    order = random.permutation(spec.queries)
    texts = np.array([*generated.texts, *frame["text"].to_numpy()[rows]], dtype=object)[
        order
    ].tolist()
    if generated.vectors is None:
        return PublicTexts(texts, None)
    return PublicTexts(texts, np.concatenate([generated.vectors, np.asarray(vectors)[rows]])[order])
