"""Generation of texts by one language model in one iteration.

The result contains the requested number of valid texts per class, or records a shortfall.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from connectors.interfaces.addresses import FolderName
from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ConfigError, FinalError
from connectors.interfaces.models import Completion, LanguageModel, Usage
from connectors.interfaces.progress import Advance
from connectors.interfaces.prompts import Prompt, Seeded
from tasks.steps.values import SHARD, Reference, scope_name
from tasks.writing.class_balance import Shares, texts_per_class
from tasks.writing.cleaning import Cleaned, normalised
from tasks.writing.first_answers import FirstAnswers, Tally, judge
from tasks.writing.forms import form_of
from tasks.writing.keyphrase_prompts import Seeding, count_used, seeded
from tasks.writing.prompts import Call, TaskCard, Turn, place_of_draw, prompt_for, seed_of
from tasks.writing.variation import DEFAULT_MANNER, Manner, Parent, generation_prompt, keyword

ROW_TYPES = {
    "sample_id": "int64",
    "text": "str",
    "label": "str",
    "attribute": "str",
    "plm": "str",
    "iteration": "int64",
    "prompt_key": "str",
    "finish_reason": "str",
    "tokens_in": "int64",
    "tokens_out": "int64",
}
FAILURE_TYPES = {
    "text": "str",
    "label": "str",
    "plm": "str",
    "iteration": "int64",
    "prompt_key": "str",
    "reason": "str",
    "attempt": "int64",
}
Row = dict[str, object]
"""One row of a table by column."""
PROMPT_TYPES = {"prompt_key": "str", "label": "str", "attempt": "int64", "text": "str"}
TOP_UP = 1.25
ROUNDS_OF_A_TASK = 8
"""Generations of a task by its texts, at most: the first round, and as many further ones as stops of a run grant."""
# Ids contain iteration and model, so that models that write at the same time need no common counter.
IDS_PER_PLM = 10**7
IDS_PER_ITERATION = 10**9
TASK_TEXTS = 10_000
"""Texts of one task: what a model writes beyond them in an iteration is divided among further tasks."""
DRAWN_TERMS = 10
"""Terms of a private vocabulary in a prompt (AugPE+V of Nagesh et al. 2025)."""
DRAWN_TOPICS = 3
"""Terms that describe a class in a prompt."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """Seeds of prompts: a table of sequences (label, phrases) and real texts.

    `shown`: rows whose owner released them for use in prompts; each prompt shows some of each class, with their
    first `length` terms from the table `terms`. `first`, `models`: index and number of the language models that share
    the sequences.
    """

    sequences: ArtifactRef
    shown: Reference | None = None
    terms: ArtifactRef | None = None
    length: int = 0
    first: int = 0
    models: int = 1


@dataclass(frozen=True, slots=True)
class WriteJob(Turn):
    """The texts that one language model writes in one iteration.

    The `count` texts are balanced over the classes of `card` or divided by `shares`.
    `offset`: number of texts assigned to classes before; remainders rotate from there. `examples`: the selection of the
    previous iteration, None for zero-shot. `earlier`: texts that must not be repeated.

    `manner`: the content of prompts and the kind of variation. With `parents` the model varies texts of these tables,
    only those of the model `only` if it is set. It writes `copies` of each text (times its column `times`), or without
    copies `count` in total, cycling through the parents. `part`: a separate folder within the iteration. With `seeds`
    each prompt requests its own phrases. With `words`, a table of terms, each prompt for a new text names randomly
    drawn ones. With `topics`, a table of terms by class, some of those of its class describe it in each prompt.

    A job that is one of several tasks of a model and iteration has `count` of their `all_texts` texts; earlier tasks
    write `before` of them.
    """

    card: TaskCard
    plm: str
    count: int = 0
    offset: int = 0
    examples: ArtifactRef | None = None
    earlier: tuple[ArtifactRef, ...] = ()
    manner: Manner = DEFAULT_MANNER
    parents: tuple[ArtifactRef, ...] = ()
    copies: int = 0
    only: str = ""
    part: FolderName = ""
    seeds: Seeds | None = None
    words: ArtifactRef | None = None
    topics: ArtifactRef | None = None
    shares: Shares = ()
    before: int = 0
    all_texts: int = 0

    @property
    def scope(self) -> str:
        """The iteration and part, for the name of a step."""
        return scope_name(self.iteration, self.part)

    def texts_of_classes(self, count: int, offset: int) -> dict[str, int]:
        """Return how many of `count` new texts each class gets; `offset` are assigned before."""
        return texts_per_class(count, self.card.label_names, self.shares, offset)


@dataclass(frozen=True, slots=True)
class WritingRequest:
    """A job with the contents of its artifacts.

    `counts`: texts per class; `before`: those that earlier tasks of the same model and iteration write. `good`, `bad`:
    the selected samples per class, best first; a class without samples uses the zero-shot prompt. `attempts`: number of
    top-up rounds after the first. `earlier`: normalised texts (tasks.writing.cleaning.normalised) already in the
    dataset. `parents`: the texts of each class to vary in turn; empty for new texts. `seeding`: each prompt requests
    its own phrases instead. `words`: terms of which each prompt for a new text names some, drawn at random. `topics`:
    terms by class of which some describe the class in each prompt.
    """

    job: WriteJob
    counts: Mapping[str, int]
    before: Mapping[str, int] = field(default_factory=dict)
    good: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bad: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    attempts: int = 3
    earlier: frozenset[str] = frozenset()
    parents: Mapping[str, tuple[Parent, ...]] = field(default_factory=dict)
    seeding: Seeding | None = None
    words: tuple[str, ...] = ()
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Generated:
    """Generated `rows` (ROW_TYPES), `failures` (FAILURE_TYPES), usage, shortfall.

    Variations have an additional column, parent_id. `prompts` (PROMPT_TYPES): all prompts in the order of the calls.
    `several`: number of rows that are the first of several texts of their completion. `phrases`: phrases that the
    prompts of the rows requested; `phrases_used`: those that occur in their rows.
    """

    rows: pd.DataFrame
    failures: pd.DataFrame
    prompts: pd.DataFrame
    usage: Usage
    shortfall: Mapping[str, int]
    several: int = 0
    phrases: int = 0
    phrases_used: int = 0

    @property
    def reasons(self) -> dict[str, int]:
        """Number of rejected completions by reason."""
        return {
            str(reason): int(count)
            for reason, count in self.failures["reason"].value_counts().items()
        }

    @property
    def unusable(self) -> dict[str, dict[str, int]]:
        """Number of rejected completions by class and reason."""
        by_class = self.failures.groupby("label", sort=False)["reason"]
        return {str(label): dict(Counter(reasons.tolist())) for label, reasons in by_class}


@dataclass(frozen=True, slots=True)
class _Query:
    prompt: Prompt
    attempt: int
    label: str
    parent_id: int


def generate(
    model: LanguageModel,
    request: WritingRequest,
    advance: Advance = lambda _: None,
    tally: Tally | None = None,
) -> Generated:
    """Generate `request.counts` valid texts per class.

    Failed and rejected completions are rows of `failures`.
    The first round requests the full count. Each further round requests the shortfall times 1.25, rounded up. Texts
    that are missing after the last round are recorded and never filled with copies. All prompts of a round are one
    call. The result depends only on the request and the completions. `advance(1)` follows every completion, including
    top-ups; `tally` counts the answers as they arrive. Raises the errors of `model.complete`, ConfigError for an
    invalid request, and FinalError if none of the first answers of a paid model is usable.
    """
    _check(request)
    writing = _Writing(request)
    name = request.job.plm
    card = request.job.card
    first_answers, tally = FirstAnswers(model, name), tally or Tally()
    for attempt in range(request.attempts + 1):
        queries = writing.round(attempt)
        if not queries:
            break
        prompts = [query.prompt for query in queries]
        judged: dict[int, Cleaned] = {}

        def keep(
            position: int,
            completion: Completion,
            prompts: list[Prompt] = prompts,
            judged: dict[int, Cleaned] = judged,
        ) -> None:
            advance(1)
            judged[position] = judge(completion, prompts[position], card)
            tally.add(judged[position], completion)
            first_answers.add(completion, judged[position].reason)

        completions = model.complete(prompts, keep)
        if len(completions) != len(queries):
            raise FinalError(
                f"Model '{name}': it returned {len(completions)} completions for {len(queries)} prompts. "
                "Check its connector."
            )
        for position, (query, completion) in enumerate(zip(queries, completions, strict=True)):
            cleaned = judged.get(position)
            # A model need not call `keep` for every completion.
            if cleaned is None:
                cleaned = judge(completion, query.prompt, card)
            writing.record(query, completion, cleaned)
        # A class is exhausted only if the model has no further text for any of its prompts.
        active = (
            query.label
            for query, c in zip(queries, completions, strict=True)
            if c.finish_reason != "exhausted"
        )
        writing.exhausted |= {query.label for query in queries} - set(active)
    return writing.finished()


def tasks_of(job: WriteJob, texts: int) -> list[WriteJob]:
    """Divide a job of this number of texts into tasks of at most `TASK_TEXTS` texts; a smaller job is one task.

    Tasks have the prompts of the undivided job in the first round, and the same number of texts of each class
    together. Texts of two tasks may be equal, like those of two models.
    """
    if texts <= TASK_TEXTS:
        return [job]
    part = SHARD
    if job.part:
        part = f"{job.part}-{SHARD}"
    return [
        replace(
            job,
            part=f"{part}{number}",
            count=min(TASK_TEXTS, texts - before),
            offset=job.offset + before,
            before=before,
            all_texts=texts,
        )
        for number, before in enumerate(range(0, texts, TASK_TEXTS))
    ]


def empty_result(request: WritingRequest) -> Generated:
    """Return the result of a model that is down: no rows, and all texts missing."""
    return _Writing(request).finished()


def first_prompts(request: WritingRequest) -> list[Prompt]:
    """Return the prompts of a request's first round, in the order of the calls."""
    _check(request)
    return [query.prompt for query in _Writing(request).round(0)]


def _check(request: WritingRequest) -> None:
    job = request.job
    if (
        not 0 <= job.plm_index < IDS_PER_ITERATION // IDS_PER_PLM
        or job.before + sum(request.counts.values()) > IDS_PER_PLM
    ):
        raise ConfigError(
            f"Model '{job.plm}': a run supports at most 100 models and 10 million texts per model and iteration. "
            "Reduce the models or the texts."
        )


class _Writing:
    """The texts of a request so far. `exhausted`: classes for which the model has no further text."""

    def __init__(self, request: WritingRequest) -> None:
        self.request = request
        self.job = request.job
        self.seen = set(request.earlier)
        # The first round continues the generations of earlier tasks: their prompts are those of one task for all.
        self.requested: Counter[str] = Counter(request.before)
        labels = [label for label in self.job.card.label_names if label in request.counts]
        self.accepted: dict[str, list[Row]] = {label: [] for label in labels}
        self.failures: list[Row] = []
        self.prompts: list[Row] = []
        self.usage = Usage()
        self.exhausted: set[str] = set()
        self.several = 0
        self.phrases = 0
        self.phrases_used = 0

    def round(self, attempt: int) -> list[_Query]:
        """Return the prompts of a round; classes alternate for a balanced interruption."""
        queries: list[tuple[int, int, _Query]] = []
        for position, label in enumerate(self.accepted):
            needed = self.request.counts[label] - len(self.accepted[label])
            if label in self.exhausted:
                needed = 0
            # Some of the next completions will be rejected like the last ones.
            if attempt > 0:
                needed = math.ceil(needed * TOP_UP)
            # Ordinals go on from the last round: they decide examples, attributes and phrases.
            start = self.requested[label]
            for ordinal in range(start, start + needed):
                queries.append((ordinal, position, _query(self.request, label, ordinal, attempt)))
            self.requested[label] += needed
            if attempt == 0 and self.job.all_texts:
                # Behind the first rounds of all tasks, and of each task behind all rounds of the one before.
                self.requested[label] = self.job.all_texts + ROUNDS_OF_A_TASK * self.job.before
        return [query for _, _, query in sorted(queries, key=lambda item: item[:2])]

    def record(self, query: _Query, completion: Completion, cleaned: Cleaned) -> None:
        """Accept a completion or record the reason for its rejection."""
        prompt = query.prompt
        label = query.label
        accepted = self.accepted[query.label]
        self.prompts.append(
            {
                "prompt_key": prompt.key,
                "label": label,
                "attempt": query.attempt,
                "text": prompt.text,
            }
        )
        self.usage += completion.usage
        text = cleaned.text
        reason = cleaned.reason
        repeats = form_of(self.job.card.form).repeats
        if reason is None and normalised(text) in self.seen and not repeats:
            reason = "duplicate"
        # A top-up requests more than is missing; the rest is recorded.
        if reason is None and len(accepted) >= self.request.counts[label]:
            reason = "surplus"
        row = {
            "text": text,
            "label": label,
            "plm": self.job.plm,
            "iteration": self.job.iteration,
            "prompt_key": prompt.key,
        }
        if reason:
            self.failures.append({**row, "reason": reason, "attempt": query.attempt})
            return
        self.seen.add(normalised(text))
        self.several += cleaned.is_first_of_several
        if isinstance(prompt, Seeded):
            self.phrases += len(set(prompt.phrases))
            self.phrases_used += count_used(text, prompt.phrases)
        details = {
            name: getattr(completion, name) for name in ("finish_reason", "tokens_in", "tokens_out")
        }
        if self.job.manner.variation:
            details["parent_id"] = query.parent_id
        accepted.append({**row, "attribute": prompt.attribute, **details})

    def finished(self) -> Generated:
        """Return the texts with their ids, and the numbers of missing ones."""
        rows = [row for of_class in self.accepted.values() for row in of_class]
        first = self.job.iteration * IDS_PER_ITERATION + self.job.plm_index * IDS_PER_PLM
        first += sum(self.request.before.values())
        numbered = [{"sample_id": first + ordinal, **row} for ordinal, row in enumerate(rows)]
        missing = {
            label: self.request.counts[label] - len(of_class)
            for label, of_class in self.accepted.items()
        }
        types = dict(ROW_TYPES)
        if self.job.manner.variation:
            types["parent_id"] = "int64"
        return Generated(
            rows=pd.DataFrame(numbered, columns=list(types)).astype(types),
            failures=pd.DataFrame(self.failures, columns=list(FAILURE_TYPES)).astype(FAILURE_TYPES),
            prompts=pd.DataFrame(self.prompts, columns=list(PROMPT_TYPES)).astype(PROMPT_TYPES),
            usage=self.usage,
            shortfall={label: count for label, count in missing.items() if count},
            several=self.several,
            phrases=self.phrases,
            phrases_used=self.phrases_used,
        )


def _query(request: WritingRequest, label: str, ordinal: int, attempt: int) -> _Query:
    parents = request.parents.get(label, ())
    parent = None
    parent_id = -1
    if parents:
        parent = parents[ordinal % len(parents)]
        parent_id = parent.sample_id
    call = Call(
        request.job,
        label,
        ordinal,
        attempt,
        request.good.get(label, ()),
        request.bad.get(label, ()),
    )
    return _Query(_prompt(request, call, parent), attempt, label, parent_id)


def _prompt(request: WritingRequest, call: Call, parent: Parent | None) -> Prompt:
    job = request.job
    if request.topics:
        return prompt_for(_described(request, call), call)
    if request.seeding is not None:
        return seeded(job.card, call, request.seeding)
    attribute = ""
    # A variation keeps the attribute of its text, which its prompt shows.
    if parent is None:
        attribute = _drawn_terms(request, call) or _attribute(request, call)
    if parent is None and job.manner.usual:
        return prompt_for(job.card, call, attribute)
    turn = call.draw_ordinal + job.plm_index + job.iteration
    phrase = keyword(job.card, call.label, job.manner, turn)
    return generation_prompt(job.card, call, job.manner, attribute or phrase, parent)


def _described(request: WritingRequest, call: Call) -> TaskCard:
    """Return the task with drawn terms in place of the description of the class."""
    card = request.job.card
    terms = request.topics.get(call.label, ())
    description = _drawn("topics", call, terms, DRAWN_TOPICS)
    labels = tuple(
        replace(label, description=description) if label.name == call.label else label
        for label in card.labels
    )
    return replace(card, labels=labels)


def _drawn_terms(request: WritingRequest, call: Call) -> str:
    """Draw the terms that a prompt names; empty if the request has none."""
    return _drawn("words", call, request.words, DRAWN_TERMS)


def _drawn(kind: str, call: Call, terms: Sequence[str], number: int) -> str:
    # By the place in the run, as the examples: prompts that share a draw of examples name the same terms.
    generator = np.random.default_rng(seed_of(kind, *place_of_draw(call)))
    order = generator.permutation(len(terms))[:number]
    return ", ".join(terms[index] for index in order)


def terms_by_class(topics: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the terms of each class of a table of topics (label, term), best first."""
    by_class = topics.groupby("label", sort=False)["term"]
    return {str(label): tuple(terms.tolist()) for label, terms in by_class}


def _attribute(request: WritingRequest, call: Call) -> str:
    """Cycle through the attribute values, one for each draw; class, model and iteration set the start."""
    job = request.job
    values = job.card.values
    if not values:
        return ""
    start = job.card.label_names.index(call.label) + job.plm_index + job.iteration
    return values[(start + call.draw_ordinal) % len(values)]
