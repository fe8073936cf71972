"""Steps that generate, embed and collect texts, from artifacts to artifacts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from operator import attrgetter
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.content_keys import digest
from connectors.interfaces.embedding import Embedder, Matrix
from connectors.interfaces.errors import ArtifactError, ConfigError, FinalError, TemporaryError
from connectors.interfaces.models import LanguageModel
from connectors.interfaces.traffic import Traffic, state_of, traffic_of
from tasks.steps.reuse import declare_versions, make_once, step_key
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import Reference, TextTable
from tasks.writing.cleaning import normalised
from tasks.writing.embed import embed_blocks
from tasks.writing.examples import Examples, examples_of
from tasks.writing.first_answers import Tally
from tasks.writing.generate import (
    DRAWN_TERMS,
    DRAWN_TOPICS,
    ROW_TYPES,
    Generated,
    Seeds,
    WriteJob,
    WritingRequest,
    empty_result,
    generate,
    terms_by_class,
)
from tasks.writing.keyphrase_prompts import SHOWN_PER_CLASS, Seeding, ShownText, read_sequences
from tasks.writing.usable_texts import stops_of
from tasks.writing.variation import DEFAULT_MANNER, Parent
from tasks.writing.vocabulary import as_text, read_vocabulary

declare_versions(__name__, {"generate": 2, "reference": 1})

KEYED: Final = (
    "plm",
    "plm_index",
    "iteration",
    "count",
    "offset",
    "card",
    "examples_per_prompt",
    "contrast",
    "seed",
)
"""Fields of a job that are part of every key."""


def samples_path(run_id: str, job: WriteJob) -> str:
    """Return the path of a job's texts in the artifact store."""
    folder = f"runs/{run_id}/iteration={job.iteration}"
    if job.part:
        folder += f"/{job.part}"
    return f"{folder}/plm={job.plm}/samples.parquet"


def write_samples(tools: Tools, job: WriteJob) -> tuple[ArtifactRef, str]:
    """Generate the texts of one language model in one iteration.

    Implements generation of WASP Algorithm 1, and Algorithm 3 for the prompt.

    If a model is down, its table is empty and contains the reason; the run continues with the other models. Resuming
    the run calls the model again, unless the private records have voted on that iteration: texts cannot join a finished
    vote. The same applies if too few texts of a model were usable: each stop of the run adds rounds of requests.
    """
    model = tools.model(job.plm)
    key = _generation_key(model.identity, job)
    path = samples_path(tools.run_id, job)
    folder = path.rpartition("/")[0]
    stops = stops_of(tools, path)

    def make() -> ArtifactRef:
        if tools.delegate(job):
            return _require_delegated(tools.artifacts.find(path, key), job.plm)
        before = traffic_of(model)
        made, down = _generate(tools, model, job, stops)
        tools.artifacts.write_table(f"{folder}/failures.parquet", made.failures, key)
        tools.artifacts.write_table(f"{folder}/prompts.parquet", made.prompts, key)
        calls = {
            host: traffic.since(before.get(host, Traffic()))
            for host, traffic in traffic_of(model).items()
        }
        info = _facts(made, down, stops, calls)
        # Last: a crash before it leaves no table of texts, so the step is repeated with all its files.
        return tools.artifacts.write_table(path, made.rows, key, info)

    def stale(ref: ArtifactRef) -> str:
        info = tools.artifacts.info(ref)
        # Texts cannot join a vote that has happened.
        if tools.artifacts.exists(f"runs/{tools.run_id}/iteration={job.iteration}/release.parquet"):
            return ""
        if info["shortfall"] and info.get("stops", 0) < stops:
            return "recomputed because too few texts were usable"
        if info["down"]:
            return "recomputed because the model was down"
        return ""

    return make_once(tools.artifacts, path, key, make, stale)


def _generate(
    tools: Tools, model: LanguageModel, job: WriteJob, stops: int
) -> tuple[Generated, str]:
    """Return the texts of a job, and the reason if the model is down."""
    request = _request(tools, job)
    # Each stop for too few texts grants all rounds once more; answers of earlier rounds are stored and cost nothing.
    request = replace(request, attempts=(request.attempts + 1) * (stops + 1) - 1)
    verb = "write"
    if job.parents:
        verb = "vary"
    tally = Tally()
    note = partial(_progress_note, model, tally)
    total = sum(request.counts.values())
    try:
        with tools.progress(f"{verb} {job.plm} {job.scope}", total, note) as advance:
            return generate(model, request, advance, tally), ""
    except (FinalError, TemporaryError) as error:
        return empty_result(request), str(error)


def _facts(
    made: Generated, down: str, stops: int, calls: Mapping[str, Traffic]
) -> dict[str, object]:
    """Return the facts stored with a table of texts."""
    facts: dict[str, object] = {
        "usage": asdict(made.usage),
        "failures": made.reasons,
        "unusable": made.unusable,
        "shortfall": dict(made.shortfall),
        "down": down,
        "stops": stops,
    }
    # Left out where there is nothing to say, as in the tables of earlier versions.
    if made.several:
        facts["several"] = made.several
    if made.phrases:
        facts |= {"phrases": made.phrases, "phrases_used": made.phrases_used}
    if calls:
        facts["traffic"] = {host: asdict(traffic) for host, traffic in calls.items()}
    return facts


def _progress_note(model: LanguageModel, tally: Tally) -> str:
    """Return the calls of a model and the answers that are not one whole text, for a progress line."""
    return ", ".join(filter(None, (state_of(model), str(tally))))


def _generation_key(model: str, job: WriteJob) -> StepKey:
    return step_key(
        "generate",
        {
            "model": model,
            **{name: getattr(job, name) for name in KEYED},
            **_optional_parameters(job),
        },
        {
            "examples": job.examples.sha256 if job.examples else "none",
            "earlier": content(job.earlier),
        },
    )


def _require_delegated(written: ArtifactRef | None, plm: str) -> ArtifactRef:
    if written is None:
        raise ConfigError(
            f"plms '{plm}': its workers wrote other texts than this run needs: model, settings or version of wasp "
            "differ. Install the same on both, then resume"
        )
    return written


@step(
    "embed {written.plm} {written.scope}",
    versions={"embed": 1},
    artifact=attrgetter("vectors"),
)
def embed_samples(tools: Tools, written: TextTable) -> tuple[TextTable, str]:
    """Embed the texts of one PLM and one iteration (phi in the paper), shared by content."""
    samples = written.samples
    key = step_key("embed", {"embedder": tools.embedder.identity}, {"samples": samples.sha256})
    path = f"embeddings/{digest(tools.embedder.identity)[:16]}/{samples.sha256[:32]}.parquet"

    what = f"embed {written.plm} {written.scope}"

    def texts() -> list[str]:
        return tools.artifacts.read_table(samples, ["text"])["text"].tolist()

    vectors, why = embed_once(tools, tools.embedder, texts, (path, key), what)
    return replace(written, vectors=vectors), why


def embed_once(
    tools: Tools,
    embedder: Embedder,
    texts: Callable[[], list[str]],
    target: tuple[str, StepKey],
    what: str,
) -> tuple[ArtifactRef, str]:
    """Return the vectors of texts at `target` (path, key), and why they were reused or made; `what` names progress."""
    path, key = target

    def make() -> ArtifactRef:
        every = texts()
        with tools.progress(what, len(every)) as advance:
            return tools.artifacts.write_matrix(path, embed_blocks(embedder, every, advance), key)

    return make_once(tools.artifacts, path, key, make)


def reference_rows(tools: Tools, reference: Reference) -> tuple[pd.DataFrame, Matrix]:
    """Return reference rows with their embeddings from the private zone."""
    frame = tools.read_rows(reference.where)
    if reference.terms is not None:
        vocabulary = read_vocabulary(tools.artifacts.read_table(reference.terms))
        frame["text"] = [
            as_text(vocabulary.first(text, reference.phrases)) for text in frame["text"].tolist()
        ]
    texts = frame["text"].tolist()
    key = step_key("reference", {"embedder": tools.embedder.identity}, {"texts": digest(texts)})
    target = f"private/reference/{key.key[:32]}.parquet", key
    ref, _ = embed_once(tools, tools.embedder, lambda: texts, target, "embed real rows")
    return frame, tools.artifacts.read_matrix(ref)


def read_samples(
    tools: Tools, written: Sequence[TextTable], columns: Sequence[str] = tuple(ROW_TYPES)
) -> pd.DataFrame:
    """Return the texts of several tables as one table, ordered by sample id.

    `columns`: those that the caller needs, with sample_id among them; the others take most of the memory.
    """
    frames = [tools.artifacts.read_table(entry.samples, columns) for entry in written]
    return pd.concat(frames).sort_values("sample_id", ignore_index=True)


def first_of_equal(samples: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which texts are the first of equal ones in their class."""
    return ~(samples["label"] + "\x00" + samples["text"].map(normalised)).duplicated().to_numpy()


def read_vectors(
    tools: Tools,
    written: Sequence[TextTable],
    chosen: NDArray[np.bool_] | NDArray[np.int64] | None = None,
) -> Matrix:
    """Return the embeddings (texts, dimension) in the order of `read_samples`.

    `chosen`: mask or indices of the only texts whose embeddings are returned; no others are in memory at once.
    """
    ids = [
        tools.artifacts.read_table(entry.samples, ["sample_id"])["sample_id"].to_numpy()
        for entry in written
    ]
    # The order of `read_samples`: votes and vectors are joined by position.
    rows = np.argsort(np.concatenate(ids), kind="stable")
    if chosen is not None:
        rows = rows[chosen]
    by_row = np.argsort(rows, kind="stable")
    ordered = rows[by_row]
    vectors: Matrix | None = None
    first = 0
    for entry in written:
        if entry.vectors is None:
            continue
        for block in tools.artifacts.read_matrix_blocks(entry.vectors):
            if vectors is None:
                vectors = np.empty((len(rows), block.shape[1]), dtype=np.float32)
            start, end = np.searchsorted(ordered, [first, first + len(block)])
            vectors[by_row[start:end]] = block[ordered[start:end] - first]
            first += len(block)
    if vectors is None or first != sum(map(len, ids)):
        raise ArtifactError("Not every text has a vector. Embed the texts, then resume the run.")
    return vectors


def content(refs: Sequence[ArtifactRef]) -> str:
    """Return one content key for an ordered sequence of artifacts."""
    return digest([ref.sha256 for ref in refs])


def _request(tools: Tools, job: WriteJob) -> WritingRequest:
    good: Examples = {}
    bad: Examples = {}
    if job.examples is not None:
        good, bad = examples_of(tools.artifacts.read_table(job.examples))
    earlier: set[str] = set()
    for ref in job.earlier:
        earlier.update(
            normalised(text) for text in tools.artifacts.read_table(ref, ["text"])["text"].tolist()
        )
    parents = _parents(tools, job)
    if job.copies:
        before, counts = _copies_of_classes(job, parents)
    else:
        before = job.texts_of_classes(job.before, job.offset - job.before)
        counts = job.texts_of_classes(job.count, job.offset)
    request = WritingRequest(
        job, counts, before, good, bad, earlier=frozenset(earlier), parents=parents
    )
    if job.seeds is not None:
        request = replace(request, seeding=_seeding(tools, job.seeds))
    if job.words is not None:
        words = tools.artifacts.read_table(job.words)["term"].tolist()
        request = replace(request, words=tuple(words))
    if job.topics is not None:
        topics = tools.artifacts.read_table(job.topics)
        request = replace(request, topics=terms_by_class(topics))
    return request


def _copies_of_classes(
    job: WriteJob, parents: Mapping[str, Sequence[Parent]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the variations of each class that earlier tasks write, and those of this job."""
    every = {label: len(of_class) * job.copies for label, of_class in parents.items()}
    if not job.all_texts:
        return {}, every
    # Each task has its part of every class; rounded down at both ends, so that all parts add up to the whole.
    before = {label: count * job.before // job.all_texts for label, count in every.items()}
    end = job.before + job.count
    counts = {label: count * end // job.all_texts - before[label] for label, count in every.items()}
    return before, counts


def texts_of_job(tools: Tools, job: WriteJob) -> int:
    """Return the number of texts of an undivided job; that of `copies` depends on its parents."""
    if not job.copies:
        return job.count
    return job.copies * sum(map(len, _parents(tools, job).values()))


def _seeding(tools: Tools, seeds: Seeds) -> Seeding:
    sequences = read_sequences(tools.artifacts.read_table(seeds.sequences))
    return Seeding(sequences, _shown(tools, seeds), seeds.first, seeds.models)


def _shown(tools: Tools, seeds: Seeds) -> tuple[ShownText, ...]:
    """Return the rows to show with their phrases from the private vocabulary."""
    if seeds.shown is None or seeds.terms is None:
        return ()
    rows = tools.read_rows(seeds.shown.where)
    vocabulary = read_vocabulary(tools.artifacts.read_table(seeds.terms))
    labelled = zip(rows["text"].tolist(), rows["label"].tolist(), strict=True)
    return tuple(
        ShownText(text, label, vocabulary.first(text, seeds.length)) for text, label in labelled
    )


def _parents(tools: Tools, job: WriteJob) -> dict[str, tuple[Parent, ...]]:
    """Return the texts of each class to vary; a text drawn several times is repeated."""
    parents: dict[str, list[Parent]] = {}
    for ref in job.parents:
        table = tools.artifacts.read_table(ref)
        if job.only:
            table = table[table["plm"] == job.only]
        times = [1] * len(table)
        # Survivors that were drawn with replacement have their number of draws.
        if "times" in table:
            times = table["times"].tolist()
        columns = (table[name].tolist() for name in ("sample_id", "text", "label"))
        for sample_id, text, label, repeats in zip(*columns, times, strict=True):
            parents.setdefault(label, []).extend([Parent(sample_id, text)] * repeats)
    return {label: tuple(parents[label]) for label in job.card.label_names if label in parents}


def _optional_parameters(job: WriteJob) -> dict[str, object]:
    """Return the key parameters beyond those of the default manner."""
    parameters: dict[str, object] = {}
    if job.manner != DEFAULT_MANNER:
        # `spread` was a setting once; without it, keys of earlier runs would not match.
        parameters["manner"] = {**job.manner.to_json(), "spread": 0.0}
    if job.parents:
        parameters |= {
            "parents": content(job.parents),
            "copies": job.copies,
            "only": job.only,
            "part": job.part,
        }
    if job.words:
        parameters["words"] = [job.words.sha256, DRAWN_TERMS]
    if job.topics:
        parameters["topics"] = [job.topics.sha256, DRAWN_TOPICS]
    if job.shares:
        parameters["shares"] = list(job.shares)
    if job.seeds:
        parameters["seeds"] = _seed_parameters(job.seeds)
    if job.all_texts:
        parameters |= {"before": job.before, "all_texts": job.all_texts}
    if job.listed:
        parameters["style"] = "list"
    # Left out at 1, as in the keys of earlier versions, where every generation had its own draw.
    if job.texts_per_prompt > 1:
        parameters["texts_per_prompt"] = job.texts_per_prompt
    return parameters


def _seed_parameters(seeds: Seeds) -> dict[str, object]:
    sources = {"shown": "", "sequences": seeds.sequences.sha256}
    shown_per_class = 0
    if seeds.shown:
        sources["shown"] = seeds.shown.content
        shown_per_class = SHOWN_PER_CLASS
    if seeds.terms:
        sources |= {"terms": seeds.terms.sha256, "length": str(seeds.length)}
    # False: prompts that name the class were a setting.
    return {**sources, "manner": [shown_per_class, False, seeds.first, seeds.models]}
