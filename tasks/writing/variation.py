"""Prompts that vary a text, and prompts for a new text that do not name its class.

RANDOM_API and VARIATION_API of private evolution (Xie et al. 2024, Aug-PE; Hou et al. 2024, PrE-Text), reworded.
"""

from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

import numpy as np

from connectors.interfaces.prompts import Cloze, Prompt
from tasks.writing.prompts import (
    LIST_END,
    Call,
    TaskCard,
    about,
    as_declared,
    fill,
    marked,
    named,
    one_line,
    place_of,
    prompt_for,
    seed_of,
    shown,
    topic_of,
)

Way = Literal["", "paraphrase", "blanks"]

UNNAMED = """\
Write one {item}{attribute}.
It should read as if a real person had written it, with concrete details of its own. Answer with the {item} alone, \
without a title, an introduction or quotation marks.
New {item}:"""

PARAPHRASE = """\
Here is a {item}{of_class}{attribute}:

{text}

Write it once more in other words, {style}. Keep what it is about, change how it is said. Answer with the new \
{item} alone.
New {item}:"""

BLANKS = """\
Words were taken out of this {item}{of_class}{attribute}; each underscore stands for one or more of them:

{text}

Write it out in full, {style}: put fitting words in the place of every underscore. Answer with the full {item} \
alone.
Full {item}:"""

SAID_AGAIN = """\
One {item}{attribute}, said in different ways.{topic}
1. {text}
2."""
"""A paraphrase as the continuation of a list, for models that do not follow an instruction."""

STYLES: Final = (
    "in a plain and sober tone",
    "as somebody would who is in a hurry",
    "with more feeling",
    "in short sentences",
    "in long and careful sentences",
    "as if told to a friend",
    "politely and formally",
    "with a different beginning",
    "with the details in another order",
    "as somebody would who writes seldom",
    "with dry humour",
    "more vividly",
)


@dataclass(frozen=True, slots=True)
class Parent:
    """A synthetic text that is varied."""

    sample_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Manner:
    """Content of prompts, and the way in which texts are varied.

    `disclose`: prompts name the class. `keywords`: each prompt names one of the class's typical words. `variation`: a
    paraphrase, or blanks to fill. `mask`: share of words that become blanks, `rounds` times.
    """

    disclose: bool = True
    keywords: bool = False
    variation: Way = ""
    mask: float = 0.5
    rounds: int = 1

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names in step keys, which call the variation a "way"."""
        values = asdict(self)
        return values | {"way": values.pop("variation")}

    @property
    def usual(self) -> bool:
        """True if the prompt for a new text is the one of the task file."""
        return self.disclose and not self.keywords


DEFAULT_MANNER: Final = Manner()
"""New texts, by the prompt of the task file."""


def keyword(card: TaskCard, label: str, manner: Manner, turn: int) -> str:
    """Return a keyword of a class in turn.

    Every text has its own keyword. Empty if prompts name none, or if naming it would reveal the class. A task with an
    attribute names a value of the attribute instead.
    """
    words = card.label(label).words
    if not (manner.keywords and manner.disclose and words) or card.values:
        return ""
    return words[turn % len(words)]


def generation_prompt(
    card: TaskCard, call: Call, manner: Manner, attribute: str, parent: Parent | None
) -> Prompt:
    """Return the prompt of one generation: a new text, or a variation of `parent`."""
    if parent is not None:
        return _variation(card, call, manner, attribute, parent)
    if manner.disclose:
        return prompt_for(card, replace(call, good=(), bad=()), attribute)
    seed = seed_of("prompt", *place_of(call), call.attempt)
    template = as_declared(UNNAMED, card)
    text = fill(template, {"item": card.item, "attribute": marked(card, attribute)})
    return Prompt(text, "", attribute=attribute, max_tokens=card.max_tokens, seed=seed)


def _variation(
    card: TaskCard, call: Call, manner: Manner, attribute: str, parent: Parent
) -> Prompt:
    seed = seed_of("vary", *place_of(call), call.attempt, parent.sample_id)
    generator = np.random.default_rng(seed)
    blanked = ""
    # Drawn before the style: the order of draws decides both, and stored completions belong to it.
    if manner.variation == "blanks":
        blanked = _blanked(parent.text, manner.mask, generator)
    label = card.label(call.label)
    values = {
        "item": card.item,
        "of_class": "",
        "attribute": marked(card, attribute),
        "text": blanked or _parent_text(card, call, parent),
        "style": STYLES[int(generator.integers(len(STYLES)))],
        "topic": "",
    }
    prompt = Prompt("", "", attribute=attribute, max_tokens=card.max_tokens, seed=seed)
    if manner.disclose:
        values |= {
            "of_class": f" of the class {named(label)}",
            "topic": f" Topic: {topic_of(label)}.",
        }
        prompt = replace(prompt, label=label.name, description=about(label))
    template = PARAPHRASE
    if blanked:
        template = BLANKS
    elif call.turn.listed:
        template = SAID_AGAIN
    text = fill(as_declared(template, card), values)
    if blanked:
        return Cloze(
            text=text,
            label=prompt.label,
            description=prompt.description,
            attribute=attribute,
            max_tokens=card.max_tokens,
            seed=seed,
            source=parent.text,
            blanked=blanked,
            mask=manner.mask,
            rounds=manner.rounds,
        )
    if call.turn.listed:
        prompt = replace(prompt, end=LIST_END)
    return replace(prompt, text=text, good=(parent.text,))


def _parent_text(card: TaskCard, call: Call, parent: Parent) -> str:
    """Return the text to vary as its prompt shows it; an entry of a list is one line."""
    if call.turn.listed:
        return one_line(parent.text)
    return shown(card, parent.text).strip("\n")


def _blanked(text: str, mask: float, generator: np.random.Generator) -> str:
    """Replace at least one word of a text by underscores; adjacent blanks become one."""
    words = text.split()
    out = generator.random(len(words)) < mask
    # A short text may have no blank by chance; its variation would be the text itself.
    out[int(generator.integers(len(words)))] = True
    masked = ["_" if gone else word for word, gone in zip(words, out, strict=True)]
    return " ".join(
        word
        for position, word in enumerate(masked)
        if word != "_" or position == 0 or masked[position - 1] != "_"
    )
