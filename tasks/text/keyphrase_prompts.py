"""Prompts of DP-KPS: a text that contains given phrases, and no word of its class.

Nagesh et al. 2025, reworded. Examples, if any, are texts that their owner released for prompts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.prompts import Prompt, Seeded
from tasks.text.prompts import Call, TaskCard, about, fill, named, place_of, seed_of

if TYPE_CHECKING:
    import pandas as pd

SEEDED = """\
Write one {item}{of_class} that contains these terms: {phrases}.
It should read as if a real person had written it. Work the terms in where they fit, in any order; other words and \
details are yours. Answer with the {item} alone, without a title, an introduction or quotation marks.
New {item}:"""

SHOWN = """\
Each numbered line below holds a real {item}; look at how they are written, not at what they are about.

{shown}

"""


@dataclass(frozen=True, slots=True)
class Seeding:
    """Seeds of prompts: sequences of phrases by class, and examples to show.

    `disclose`: prompts name the class. The models take the sequences of a class in turn: model `first` of `models`
    starts at sequence `first`.
    """

    sequences: Mapping[str, tuple[tuple[str, ...], ...]]
    shown: tuple[str, ...] = ()
    examples: int = 0
    disclose: bool = False
    first: int = 0
    models: int = 1

    def phrases(self, label: str, ordinal: int) -> tuple[str, ...]:
        """Return the sequence for the model's text number `ordinal`, in rotation."""
        of_class = self.sequences[label]
        return of_class[(ordinal * self.models + self.first) % len(of_class)]


def read_sequences(table: pd.DataFrame) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the sequences of each class from sequences.parquet, in drawing order."""
    sequences: dict[str, list[tuple[str, ...]]] = {}
    for label, phrases in zip(table["label"].tolist(), table["phrases"].tolist(), strict=True):
        sequences.setdefault(label, []).append(tuple(json.loads(phrases)))
    return {label: tuple(of_class) for label, of_class in sequences.items()}


def seeded(card: TaskCard, call: Call, seeding: Seeding) -> Prompt:
    """Return the prompt of one generation with its phrases."""
    phrases, shown = seeding.phrases(call.label, call.ordinal), _examples(seeding, call)
    label = card.label(call.label)
    values = {
        "item": card.item,
        "phrases": "; ".join(phrases),
        "shown": _listed(card, shown),
        "of_class": f" of the class {named(label)}" if seeding.disclose else "",
    }
    return Seeded(
        text=fill((SHOWN if shown else "") + SEEDED, values),
        label=label.name if seeding.disclose else "",
        description=about(label) if seeding.disclose else "",
        good=shown,
        max_tokens=card.max_tokens,
        seed=seed_of("seeded", *place_of(call), call.attempt),
        phrases=phrases,
    )


def _examples(seeding: Seeding, call: Call) -> tuple[str, ...]:
    """Draw the examples of one prompt in random order, at most `seeding.examples`."""
    generator = np.random.default_rng(seed_of("shown", *place_of(call)))
    order = generator.permutation(len(seeding.shown))[: seeding.examples]
    return tuple(seeding.shown[position] for position in order)


def _listed(card: TaskCard, texts: Sequence[str]) -> str:
    return "\n".join(f"{card.item} {number}: {' '.join(text.split())}" for number, text in enumerate(texts, start=1))
