"""Prompts of DP-KPS: a text that contains given phrases, and no word of its class.

Nagesh et al. 2025, reworded. Examples, if any, are texts that their owner released for prompts; each is shown with its
own phrases, the same number for every class (appendix B.2.5).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.prompts import Prompt, Seeded
from connectors.interfaces.text_forms import spaced
from tasks.writing.prompts import (
    LIST_END,
    Call,
    PhraseExample,
    TaskCard,
    as_declared,
    fill,
    place_of,
    seed_of,
)

if TYPE_CHECKING:
    import pandas as pd

FLOW: Final = "dp_kps"
"""The flow whose prompts are made here."""
BETWEEN: Final = "; "
_WORD = re.compile(r"\w+")
SHOWN_PER_CLASS: Final = 3
"""Examples of each class in a prompt (appendix B.2.5)."""

SEEDED = """\
Write one {item} that contains these terms: {phrases}.
It should read as if a real person had written it. Work the terms in where they fit, in any order; other words and \
details are yours. Answer with the {item} alone, without a title, an introduction or quotation marks.
New {item}:"""

LISTED = """\
Real examples of a {item}, each after the words it contains.
{shown}
{number}. {phrases}:"""
"""The same as the continuation of a list, for models that do not follow an instruction."""

SUPPORT_DESK: Final = (
    PhraseExample(
        ("open", "sunday", "hours"), "Hello, are you open on Sunday, and until what hours?"
    ),
    PhraseExample(("parcel", "late"), "My parcel is two days late. Where is it now?"),
)
"""First lines of a list if neither released examples with phrases nor lines of the task are there.

They fit a support desk alone; other tasks are warned about them. Stored texts of earlier versions have them.
"""
SUPPORT_TASK: Final = "support_desk"
"""The shipped task that they fit."""

SHOWN = """\
Each numbered line below holds a real {item}, after a line of terms that it contains; look at how they are written, \
not at what they are about.

{shown}

"""


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text to show in prompts, with its class, which no prompt names, and its phrases."""

    text: str
    label: str
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seeding:
    """Seeds of prompts: sequences of phrases by class, and examples to show.

    Each prompt shows `SHOWN_PER_CLASS` examples of every class of `shown`. The models take the sequences of a class in
    turn: model `first` of `models` starts at sequence `first`.
    """

    sequences: Mapping[str, tuple[tuple[str, ...], ...]]
    shown: tuple[ShownText, ...] = ()
    first: int = 0
    models: int = 1

    def phrases(self, label: str, ordinal: int) -> tuple[str, ...]:
        """Return the sequence for the model's text number `ordinal`, in rotation."""
        of_class = self.sequences[label]
        return of_class[(ordinal * self.models + self.first) % len(of_class)]


def without_idle_examples(card: TaskCard, flow: str, is_listed: bool) -> TaskCard:
    """Leave out the lines of a task if no prompt has them."""
    if flow == FLOW and is_listed:
        return card
    return replace(card, phrase_examples=())


def count_used(text: str, phrases: Sequence[str]) -> int:
    """Return how many different phrases a text contains, as whole words in any case.

    In scripts without blanks between words, each letter counts as a word.
    """
    plain = _plain(text)
    return sum(_plain(phrase) in plain for phrase in set(phrases))


def _plain(text: str) -> str:
    """Return the words of a text in lower case, each between blanks."""
    return f" {' '.join(_WORD.findall(spaced(text.casefold())))} "


def read_sequences(table: pd.DataFrame) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the sequences of each class from sequences.parquet, in drawing order."""
    sequences: dict[str, list[tuple[str, ...]]] = {}
    for label, phrases in zip(table["label"].tolist(), table["phrases"].tolist(), strict=True):
        sequences.setdefault(label, []).append(tuple(json.loads(phrases)))
    return {label: tuple(of_class) for label, of_class in sequences.items()}


def seeded(card: TaskCard, call: Call, seeding: Seeding) -> Prompt:
    """Return the prompt of one generation with its phrases."""
    phrases = seeding.phrases(call.label, call.ordinal)
    shown = _examples(seeding, call)
    values = {"item": card.item}
    if call.turn.listed:
        released = tuple(example for example in shown if example.phrases)
        lines: Sequence[ShownText | PhraseExample] = (
            released or card.phrase_examples or SUPPORT_DESK
        )
        values |= {"phrases": ", ".join(phrases), "shown": _numbered(lines)}
        values["number"] = str(len(lines) + 1)
        template = as_declared(LISTED, card)
        end = LIST_END
    else:
        values |= {"phrases": BETWEEN.join(phrases), "shown": _listed(card, shown)}
        template = as_declared(SEEDED, card)
        end = ""
        if shown:
            template = SHOWN + template
    return Seeded(
        text=fill(template, values),
        # The prompt does not name the class; its phrases alone stand for it.
        label="",
        good=tuple(example.text for example in shown),
        max_tokens=card.max_tokens,
        seed=seed_of("seeded", *place_of(call), call.attempt),
        end=end,
        phrases=phrases,
    )


def _examples(seeding: Seeding, call: Call) -> tuple[ShownText, ...]:
    """Draw the examples of one prompt in random order, at most `SHOWN_PER_CLASS` of each class."""
    generator = np.random.default_rng(seed_of("shown", *place_of(call)))
    drawn: list[ShownText] = []
    number: Counter[str] = Counter()
    # All are drawn and the surplus of a class is dropped, so the classes of the others are mixed.
    for position in generator.permutation(len(seeding.shown)):
        example = seeding.shown[position]
        number[example.label] += 1
        if number[example.label] <= SHOWN_PER_CLASS:
            drawn.append(example)
    return tuple(drawn)


def _numbered(lines: Sequence[ShownText | PhraseExample]) -> str:
    return "\n".join(
        f"{at}. {', '.join(line.phrases)}: {' '.join(line.text.split())}"
        for at, line in enumerate(lines, 1)
    )


def _listed(card: TaskCard, examples: Sequence[ShownText]) -> str:
    lines = []
    for number, example in enumerate(examples, start=1):
        if example.phrases:
            lines.append(f"terms {number}: {BETWEEN.join(example.phrases)}")
        lines.append(f"{card.item} {number}: {' '.join(example.text.split())}")
    return "\n".join(lines)
