"""One PLM writes its share of one iteration: exactly so many valid texts per class, or a recorded shortfall."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from connectors.interfaces.errors import ConfigError, FinalError
from connectors.interfaces.models import Completion, LanguageModel, Usage
from connectors.interfaces.progress import Advance
from connectors.interfaces.prompts import Prompt
from tasks.text.cleaning import clean, normalised
from tasks.text.keyphrase_prompts import Seeding, seeded
from tasks.text.prompts import Call, TaskCard, place_of, prompt_for, seed_of
from tasks.text.variation import USUAL, Manner, Parent, generation_prompt, keyword

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
PROMPT_TYPES = {"prompt_key": "str", "label": "str", "attempt": "int64", "text": "str"}
FINISHED = frozenset({"stop", "length"})
TOP_UP = 1.25
IDS_PER_PLM = 10**7
IDS_PER_ITERATION = 10**9


@dataclass(frozen=True, slots=True)
class Request:
    """What one PLM is to write in one iteration.

    `counts`: texts per class. `good`, `bad`: the selected samples per class, best first; a class without them gets
    the zero-shot prompt. `examples` is S in the paper. `attempts`: rounds of topping up after the first.
    `earlier`: the normalised texts (tasks.text.cleaning.normalised) of the data set so far. `manner`: what prompts
    tell, and how texts are varied. `parents`: the texts of each class that are varied, in turn; none: new ones.
    `seeding`: each prompt asks for phrases of its own instead. `words`: terms of which each prompt for a new text names
    `words_per_prompt`, drawn at random.
    """

    card: TaskCard
    plm: str
    plm_index: int
    iteration: int
    counts: Mapping[str, int]
    good: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bad: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    examples: int = 8
    contrast: bool = True
    seed: int = 0
    attempts: int = 3
    earlier: frozenset[str] = frozenset()
    manner: Manner = USUAL
    parents: Mapping[str, tuple[Parent, ...]] = field(default_factory=dict)
    seeding: Seeding | None = None
    words: tuple[str, ...] = ()
    words_per_prompt: int = 1


@dataclass(frozen=True, slots=True)
class Generated:
    """`rows` (ROW_TYPES) for the data set, `failures` (FAILURE_TYPES) with a reason each, usage, what is missing.

    Variations have a further column, parent_id. `prompts` (PROMPT_TYPES): everything that was asked, in order.
    """

    rows: pd.DataFrame
    failures: pd.DataFrame
    prompts: pd.DataFrame
    usage: Usage
    shortfall: Mapping[str, int]

    @property
    def reasons(self) -> dict[str, int]:
        """How many answers were left out for each reason."""
        return {str(reason): int(count) for reason, count in self.failures["reason"].value_counts().items()}

    @property
    def unusable(self) -> dict[str, dict[str, int]]:
        """Numbers of answers that were left out, by class and reason."""
        by_class = self.failures.groupby("label", sort=False)["reason"]
        return {str(label): dict(Counter(reasons.tolist())) for label, reasons in by_class}


@dataclass(frozen=True, slots=True)
class _Ask:
    prompt: Prompt
    attempt: int
    label: str
    parent_id: int


@dataclass(slots=True)
class _Progress:
    """What has been asked and kept so far."""

    seen: set[str]
    asked: Counter[str] = field(default_factory=Counter)
    kept: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    prompts: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    exhausted: set[str] = field(default_factory=set)


def generate(model: LanguageModel, request: Request, advance: Advance = lambda _: None) -> Generated:
    """Ask a model for `request.counts` valid texts per class; failed, unusable and repeated answers are rows too.

    The first round asks for as many as wanted, each further one for the shortfall times 1.25, rounded up. What is
    still missing after the last is recorded and never filled with copies. All prompts of a round go out in one call.
    The result depends on the request and the model's answers alone. `advance(1)` follows every answer, top-ups
    included. Raises what `model.complete` raises, ConfigError for a request that cannot be written.
    """
    _check(request)
    progress = _Progress(seen=set(request.earlier))
    progress.kept = {label: [] for label in request.card.label_names if label in request.counts}
    for attempt in range(request.attempts + 1):
        asks = _round(request, progress, attempt)
        if not asks:
            break
        answers = model.complete([ask.prompt for ask in asks], lambda _, __: advance(1))
        if len(answers) != len(asks):
            raise FinalError(f"PLM '{request.plm}' returned {len(answers)} answers to {len(asks)} prompts.")
        for ask, answer in zip(asks, answers, strict=True):
            progress.prompts.append({**_named(ask), "text": ask.prompt.text})
            _take(request, progress, ask, answer)
        progress.exhausted |= _silent(asks, answers)
    return _finished(request, progress)


def nothing(request: Request) -> Generated:
    """Return what a PLM that cannot write has generated: no row, all of its texts missing."""
    return _finished(request, _Progress(seen=set(), kept={label: [] for label in request.counts}))


def first_prompts(request: Request) -> list[Prompt]:
    """Return the prompts of a request's first round, in the order in which they are asked."""
    _check(request)
    progress = _Progress(seen=set(), kept={label: [] for label in request.card.label_names if label in request.counts})
    return [ask.prompt for ask in _round(request, progress, 0)]


def _check(request: Request) -> None:
    for label, count in request.counts.items():
        request.card.label(label)
        if count < 0:
            raise ConfigError(f"PLM '{request.plm}' is asked for {count} texts of class '{label}'.")
    if not 0 <= request.plm_index < IDS_PER_ITERATION // IDS_PER_PLM or sum(request.counts.values()) > IDS_PER_PLM:
        raise ConfigError("A run holds at most 100 PLMs, and each writes at most 10 million texts per iteration.")


def _round(request: Request, progress: _Progress, attempt: int) -> list[_Ask]:
    """Return this round's prompts, classes in turn, so that an interrupted round is balanced."""
    asks: list[tuple[int, int, _Ask]] = []
    for position, label in enumerate(progress.kept):
        missing = 0 if label in progress.exhausted else request.counts[label] - len(progress.kept[label])
        wanted = missing if attempt == 0 else math.ceil(missing * TOP_UP)
        start = progress.asked[label]
        for ordinal in range(start, start + wanted):
            asks.append((ordinal, position, _ask(request, label, ordinal, attempt)))
        progress.asked[label] += wanted
    return [ask for _, _, ask in sorted(asks, key=lambda item: item[:2])]


def _ask(request: Request, label: str, ordinal: int, attempt: int) -> _Ask:
    parents = request.parents.get(label, ())
    parent = parents[ordinal % len(parents)] if parents else None
    prompt = _prompt(request, _call(request, label, ordinal, attempt), parent)
    return _Ask(prompt, attempt, label, parent.sample_id if parent else -1)


def _call(request: Request, label: str, ordinal: int, attempt: int) -> Call:
    return Call(
        seed=request.seed,
        iteration=request.iteration,
        plm_index=request.plm_index,
        label=label,
        ordinal=ordinal,
        attempt=attempt,
        good=request.good.get(label, ()),
        bad=request.bad.get(label, ()),
        examples=request.examples,
        contrast=request.contrast,
    )


def _prompt(request: Request, call: Call, parent: Parent | None) -> Prompt:
    if request.seeding is not None:
        return seeded(request.card, call, request.seeding)
    attribute = "" if parent else _drawn_words(request, call) or _attribute(request, call.label, call.ordinal)
    if parent is None and request.manner.usual:
        return prompt_for(request.card, call, attribute)
    said = keyword(request.card, call.label, request.manner, call.ordinal + request.plm_index + request.iteration)
    return generation_prompt(request.card, call, request.manner, attribute or said, parent)


def _drawn_words(request: Request, call: Call) -> str:
    """Draw the words that a prompt names; empty where there are none to draw from."""
    if not request.words:
        return ""
    generator = np.random.default_rng(seed_of("words", *place_of(call)))
    order = generator.permutation(len(request.words))[: request.words_per_prompt]
    return ", ".join(request.words[place] for place in order)


def _attribute(request: Request, label: str, ordinal: int) -> str:
    """Go round the values of the attribute; classes, PLMs and iterations start at different ones."""
    values = request.card.values
    if not values:
        return ""
    start = request.card.label_names.index(label) + request.plm_index + request.iteration
    return values[(start + ordinal) % len(values)]


def _named(ask: _Ask) -> dict[str, Any]:
    return {"prompt_key": ask.prompt.key, "label": ask.label, "attempt": ask.attempt}


def _take(request: Request, progress: _Progress, ask: _Ask, answer: Completion) -> None:
    """Keep an answer or note why not."""
    progress.usage += answer.usage
    text, reason = _judged(request, progress, ask, answer)
    row = {
        "text": text,
        "label": ask.label,
        "plm": request.plm,
        "iteration": request.iteration,
        "prompt_key": ask.prompt.key,
    }
    if reason:
        progress.failures.append({**row, "reason": reason, "attempt": ask.attempt})
        return
    progress.seen.add(normalised(text))
    details = {
        "attribute": ask.prompt.attribute,
        "finish_reason": answer.finish_reason,
        "tokens_in": answer.tokens_in,
        "tokens_out": answer.tokens_out,
    }
    if request.manner.way:
        details["parent_id"] = ask.parent_id
    progress.kept[ask.label].append({**row, **details})


def _judged(request: Request, progress: _Progress, ask: _Ask, answer: Completion) -> tuple[str, str | None]:
    label = ask.label
    cleaned = clean(answer.text, ask.prompt, request.card.language)
    if answer.finish_reason not in FINISHED:
        return cleaned.text, "refusal" if answer.finish_reason == "refused" else answer.finish_reason
    if cleaned.reason:
        return cleaned.text, cleaned.reason
    if normalised(cleaned.text) in progress.seen:
        return cleaned.text, "duplicate"
    return cleaned.text, "surplus" if len(progress.kept[label]) >= request.counts[label] else None


def _silent(asks: list[_Ask], answers: list[Completion]) -> set[str]:
    """Return the classes for which the model had nothing left to say at all."""
    spoke = {ask.label for ask, answer in zip(asks, answers, strict=True) if answer.finish_reason != "exhausted"}
    return {ask.label for ask in asks} - spoke


def _finished(request: Request, progress: _Progress) -> Generated:
    rows = [row for of_class in progress.kept.values() for row in of_class]
    first = request.iteration * IDS_PER_ITERATION + request.plm_index * IDS_PER_PLM
    numbered = [{"sample_id": first + ordinal, **row} for ordinal, row in enumerate(rows)]
    missing = {label: request.counts[label] - len(of_class) for label, of_class in progress.kept.items()}
    types = ROW_TYPES | ({"parent_id": "int64"} if request.manner.way else {})
    return Generated(
        rows=pd.DataFrame(numbered, columns=list(types)).astype(types),
        failures=pd.DataFrame(progress.failures, columns=list(FAILURE_TYPES)).astype(FAILURE_TYPES),
        prompts=pd.DataFrame(progress.prompts, columns=list(PROMPT_TYPES)).astype(PROMPT_TYPES),
        usage=progress.usage,
        shortfall={label: count for label, count in missing.items() if count},
    )
