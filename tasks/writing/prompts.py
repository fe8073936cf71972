"""Task cards, zero-shot and contrastive prompts, and the draw of examples."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from connectors.interfaces.content_keys import OMITTED_IF_EMPTY, digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.rows import NO_CLASS
from tasks.writing.forms import form_of

ZERO_SHOT = """\
Write one {item} of the class {label}{attribute}.
It should read as if a real person had written it, with concrete details of its own. Answer with the {item} alone, \
without a title, an introduction or quotation marks.
New {item}:"""

CONTRASTIVE = """\
Each numbered line below holds a {item} of the class {label}. First come bad ones, which real people would hardly \
write, then good ones, which come closer to what real people write.

{bad}

{good}

Compare the two groups for yourself: what makes the good ones better in content, detail, wording, tone and length? \
Then write one new {item} of the class {label}{attribute}. Use other words and other details than the good ones, and \
carry the improvement on: the good ones should lie midway between the bad ones and yours. It must stay clear and \
plainly of its class. Answer with the new {item} alone, without your comparison.
Better {item}:"""

GOOD_ONLY = """\
Each numbered line below holds a {item} of the class {label}, close to what real people write.

{good}

Write one new {item} of the class {label}{attribute}, as convincing as these, in other words and with other details. \
Answer with the new {item} alone.
New {item}:"""

_NUMBERED_LINES = "Each numbered line below"
_NUMBERED_TEXTS = "Each numbered text below"
"""Beginning of prompts with examples, which are lines unless line breaks belong to the form."""

LIST_HEADING = "Real examples of a {item}{attribute}. Topic: {topic}."
LIST_END = "\n"
"""End of a text that continues a list."""

EXAMPLE = "{Quality} {item} {number}: {text}"
"""A line of an example. `{quality}` is good or bad, `{Quality}` the same with a capital."""

_DEFAULTS = frozenset({ZERO_SHOT, CONTRASTIVE, GOOD_ONLY, LIST_HEADING})
"""Templates that are not the user's own, and so request the language of a task."""

OPTIONAL = frozenset({"item", "attribute", "attribute_value", "label_name"})
"""Placeholders that every instruction of a task file may contain."""

REQUIRED: Mapping[str, frozenset[str]] = {
    "zero_shot": frozenset({"label"}),
    "contrastive": frozenset({"label", "good", "bad"}),
    "good_only": frozenset({"label", "good"}),
    "list_heading": frozenset({"topic"}),
}
"""Placeholders that each instruction must contain, its only others; `{label_name}` does for `{label}`."""

CLASS = frozenset({"label", "topic", "label_name"})
"""Placeholders without a value in a task without labels."""

EXAMPLE_PLACEHOLDERS = frozenset({"quality", "Quality", "item", "number", "text"})
"""Placeholders of the line of an example, of which it must contain `{text}`."""

_OF_A_CLASS = re.compile(r" of the class \{label\}| and plainly of its class| Topic: \{topic\}\.")

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Label:
    """One class of a task: its `name` in the data, a description, and typical words.

    Remote models get name and description. `words` are for embedded models; they would narrow the output of others.
    """

    name: str
    description: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PhraseExample:
    """A made-up text of a task and some phrases that it contains, for prompts of DP-KPS that are lists."""

    phrases: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class TaskCard:
    """A task: item, classes, attribute, instructions (see flows/config/task_files).

    A task without labels has the one class NO_CLASS. `phrase_examples`: see `PhraseExample`. `example`: the line of an
    example in a prompt (default EXAMPLE); `good_only_example`: the same in prompts without bad ones, if it differs.
    `prompt_language`: name of the language that prompts request and that texts must have; empty for English, and in
    runs of earlier versions. `form`: the form of a text; empty for prose. `length`: length of a usual text in words
    that prompts request, such as "120 words"; empty if none is declared.
    """

    name: str
    item: str
    labels: tuple[Label, ...]
    attribute: str = ""
    values: tuple[str, ...] = ()
    zero_shot: str = ZERO_SHOT
    contrastive: str = CONTRASTIVE
    good_only: str = GOOD_ONLY
    max_tokens: int = 256
    language: str = "en"
    list_heading: str = field(default="", metadata=OMITTED_IF_EMPTY)
    phrase_examples: tuple[PhraseExample, ...] = field(default=(), metadata=OMITTED_IF_EMPTY)
    example: str = field(default="", metadata=OMITTED_IF_EMPTY)
    good_only_example: str = field(default="", metadata=OMITTED_IF_EMPTY)
    prompt_language: str = field(default="", metadata=OMITTED_IF_EMPTY)
    form: str = field(default="", metadata=OMITTED_IF_EMPTY)
    length: str = field(default="", metadata=OMITTED_IF_EMPTY)

    @property
    def has_classes(self) -> bool:
        """False for a task without labels."""
        return self.label_names != (NO_CLASS,)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes in the order of the task file."""
        return tuple(label.name for label in self.labels)

    def label(self, name: str) -> Label:
        """Return the class of that name; ConfigError if the task has none."""
        for label in self.labels:
            if label.name == name:
                return label
        raise ConfigError(
            f"Task '{self.name}' has no label '{name}'. Its labels: {', '.join(self.label_names)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One language model in one iteration, and what all its prompts have in common.

    `examples_per_prompt` is S in the paper. `contrast`: also bad examples. `listed`: prompts are the beginnings of
    lists. `texts_per_prompt`: consecutive generations of a class that share one draw of examples and terms.
    """

    plm_index: int
    iteration: int
    seed: int = 0
    examples_per_prompt: int = 0
    contrast: bool = False
    listed: bool = False
    texts_per_prompt: int = 1


@dataclass(frozen=True, slots=True)
class Call:
    """One generation: its position in the run, and the examples of its class.

    `good`, `bad`: the best and the worst samples of the class, best first. `ordinal` counts the generations of one
    class in one turn.
    """

    turn: Turn
    label: str
    ordinal: int
    attempt: int = 0
    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()

    @property
    def draw_ordinal(self) -> int:
        """The position among the draws of the class, equal for all generations that share one draw."""
        return self.ordinal // self.turn.texts_per_prompt


def seed_of(*parts: str | int) -> int:
    """Return a seed in [0, 2^31) from all parts, equal on every machine."""
    return int(digest(list(parts))[:8], 16) & 0x7FFFFFFF


def placeholders(template: str) -> frozenset[str]:
    """Return the names in braces in a template."""
    return frozenset(_PLACEHOLDER.findall(template))


def without_class(template: str) -> str:
    """Return a template without the passages of the default ones that name the class, for a task without labels."""
    return _OF_A_CLASS.sub("", template)


def as_declared(template: str, card: TaskCard) -> str:
    """Return a template of this project that requests the form, length and language of a task, if it declares some.

    An instruction gets sentences before its last line. The beginning of a list names length and language behind the
    item: its form is that of its lines.
    """
    *lines, last = template.split("\n")
    if last.endswith(" {item}:"):
        length = f"Its length is about {card.length}." if card.length else ""
        language = f"Write in {card.prompt_language}." if card.prompt_language else ""
        requests = [request for request in (_request(card), length, language) if request]
        text = "\n".join([*lines[:-1], " ".join([lines[-1], *requests]), last])
    else:
        length = f" of about {card.length}" if card.length else ""
        language = f" in {card.prompt_language}" if card.prompt_language else ""
        text = template.replace("{item}", f"{{item}}{length}{language}", 1)
    if form_of(card.form).keeps_lines:
        text = text.replace(_NUMBERED_LINES, _NUMBERED_TEXTS)
    return text


def _request(card: TaskCard) -> str:
    return form_of(card.form).request


def shown(card: TaskCard, text: str) -> str:
    """Return an example as an instruction shows it: on one line, unless line breaks belong to the form."""
    # A line break inside other examples would begin a line without number or tag.
    if form_of(card.form).keeps_lines and "\n" in text:
        return f"\n{text}"
    return one_line(text)


def one_line(text: str) -> str:
    """Return a text without line breaks and repeated blanks."""
    return " ".join(text.split())


def fill(template: str, values: Mapping[str, str]) -> str:
    """Insert `values` into a template in a single pass.

    Braces inside the values are not replaced.
    """
    # Not str.format: texts contain braces, and an unknown name in braces stays as it is.
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def zero_shot(card: TaskCard, label: str, attribute: str, seed: int) -> Prompt:
    """Return a prompt for one item of a class, without examples.

    `attribute` is a value of the card's attribute, or empty.
    """
    return _prompt(card, card.zero_shot, Prompt("", label, attribute=attribute, seed=seed))


def contrastive(
    card: TaskCard, label: str, attribute: str, good: Sequence[str], bad: Sequence[str], seed: int
) -> Prompt:
    """Return a prompt for one item that is better than the good examples.

    The improvement continues the one from bad to good examples (Table 7 of WASP). Without bad examples the prompt shows
    the good ones only. Examples are synthetic texts, never private rows.
    """
    template = card.contrastive
    if not bad:
        template = card.good_only
    draft = Prompt("", label, attribute=attribute, good=tuple(good), bad=tuple(bad), seed=seed)
    return _prompt(card, template, draft)


def listed(card: TaskCard, label: str, attribute: str, good: Sequence[str], seed: int) -> Prompt:
    """Return the beginning of a numbered list of one class's items: a heading, the good examples, the next number.

    `seed` also chooses a word of the class where a list has no examples and no attribute.
    """
    entries = [f"{number}. {one_line(text)}" for number, text in enumerate(good, start=1)]
    draft = Prompt("", label, attribute=attribute, good=tuple(good), seed=seed, end=LIST_END)
    words = card.label(label).words
    # Without examples a small model needs a word to start from.
    if words and not good and not card.attribute:
        draft = replace(draft, attribute=attribute or words[seed % len(words)])
    heading = replace(_prompt(card, card.list_heading or LIST_HEADING, draft), attribute=attribute)
    return replace(heading, text="\n".join([heading.text, *entries, f"{len(good) + 1}."]))


def examples_for(call: Call) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Draw the (good, bad) examples of one generation at random, in random order.

    S - floor(S/2) of the good and floor(S/2) of the bad ones; S good ones without contrast. Each draw is seeded by its
    position in the run and serves `texts_per_prompt` generations, by default one: WASP does not specify how often
    examples are redrawn.
    """
    generator = np.random.default_rng(seed_of("examples", *place_of_draw(call)))
    bad_count = 0
    if call.turn.contrast:
        bad_count = call.turn.examples_per_prompt // 2
    # Bad ones first: with another order of draws, no stored completion would match its prompt.
    bad = _draw(generator, call.bad, bad_count)
    good = _draw(generator, call.good, call.turn.examples_per_prompt - bad_count)
    return good, bad


def prompt_for(card: TaskCard, call: Call, attribute: str = "") -> Prompt:
    """Return the prompt of one generation.

    Contrastive; zero-shot without good examples or with fewer than two examples. Models that continue a text, instead
    of following an instruction, get the beginning of a list of good examples. Prompts of generations that share a draw
    differ in their seed alone.
    """
    seed = seed_of("prompt", *place_of(call), call.attempt)
    good, bad = examples_for(call)
    if call.turn.listed:
        draw_seed = seed_of("prompt", *place_of_draw(call), call.attempt)
        return replace(listed(card, call.label, attribute, good, draw_seed), seed=seed)
    if not good or len(good) + len(bad) < 2:
        return zero_shot(card, call.label, attribute, seed)
    return contrastive(card, call.label, attribute, good, bad, seed)


def place_of(call: Call) -> tuple[str | int, ...]:
    """Return the position of a generation in its run, the base of its seeds."""
    return call.turn.seed, call.turn.iteration, call.turn.plm_index, call.label, call.ordinal


def place_of_draw(call: Call) -> tuple[str | int, ...]:
    """Return the position of a generation's draw in its run; the generation's own position if it shares no draw."""
    return place_of(replace(call, ordinal=call.draw_ordinal))


def _draw(generator: np.random.Generator, texts: Sequence[str], count: int) -> tuple[str, ...]:
    order = generator.permutation(len(texts))[:count]
    return tuple(texts[position] for position in order)


def _prompt(card: TaskCard, template: str, draft: Prompt) -> Prompt:
    label = card.label(draft.label)
    if template in _DEFAULTS:
        template = as_declared(template, card)
    if not card.has_classes:
        template = without_class(template)
    line = card.example or EXAMPLE
    if card.good_only_example and not draft.bad:
        line = card.good_only_example
    values = {
        "item": card.item,
        "label": named(label),
        "label_name": label.name,
        "topic": topic_of(label),
        "attribute": marked(card, draft.attribute),
        "attribute_value": draft.attribute,
        "bad": _example_lines(line, card, "bad", draft.bad),
        "good": _example_lines(line, card, "good", draft.good),
    }
    return replace(
        draft, text=fill(template, values), description=about(label), max_tokens=card.max_tokens
    )


def marked(card: TaskCard, attribute: str) -> str:
    """Return the clause for a value of the card's attribute, or for a keyword."""
    if not attribute:
        return ""
    if not card.attribute:
        return f' about "{attribute}"'
    return f', with the {card.attribute} "{attribute}"'


def about(label: Label) -> str:
    """Return the description of a class for embedded models, in addition to its name."""
    return " ".join(part for part in (label.description, ", ".join(label.words)) if part)


def named(label: Label) -> str:
    """Return the name of a class for prompts, with its description."""
    if not label.description:
        return f'"{label.name}"'
    return f'"{label.name}" ({label.description})'


def topic_of(label: Label) -> str:
    """Return a class in the words of a list's heading."""
    return label.description or label.name.replace("_", " ")


def _example_lines(line: str, card: TaskCard, quality: str, texts: Sequence[str]) -> str:
    common = {"item": card.item, "quality": quality, "Quality": quality.capitalize()}
    return "\n".join(
        fill(line, {**common, "number": str(number), "text": shown(card, text)})
        for number, text in enumerate(texts, start=1)
    )
