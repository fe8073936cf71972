"""A small text grammar for the shipped data: phrase files in, random texts out."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import connectors

DATA = Path(connectors.__file__).parent / "data"
"""The shipped data, whose tables the program of this folder makes."""

PHRASES = Path(__file__).parent / "phrases"

_CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")
_SLOT = re.compile(r"\{([^{}]+)\}")
_NUMBER = re.compile(r"n:(\d+)-(\d+)")
_DIGITS = re.compile(r"d:(\d+)")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeioAEIO]|u(?!s[eu]|ni|ti))(?!one\b|once\b)")
_SENTENCE_START = re.compile(r"(^|[.!?] )([a-z])")


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rewriting rules.

    `{name}` is a rule, `(a|b)` a choice, `{n:3-9}` a number, `{d:5}` that many digits. The random source is used only
    through `random()`: its stream is the same in every Python version.
    """

    rules: Mapping[str, list[str]]
    texts: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str) -> Grammar:
        """Read `phrases/NAME.txt`.

        A rule is `rule = item | item` on one line, or `rule =` with one item per indented line; a lone `-` is the empty
        item. `text LABEL =` lists the patterns of a label. `#` starts a comment line.
        """
        rules: dict[str, list[str]] = {}
        items: list[str] = []
        for line in (PHRASES / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("#") or not line.strip():
                continue
            if not line.startswith(" "):
                name_, _, line = line.partition(" =")
                items = rules.setdefault(name_, [])
            items.extend(
                "" if item.strip() == "-" else item.strip()
                for item in line.split(" | ")
                if item.strip()
            )
        texts = {
            rule.removeprefix("text "): items
            for rule, items in rules.items()
            if rule.startswith("text ")
        }
        return cls(
            {rule: items for rule, items in rules.items() if not rule.startswith("text ")}, texts
        )

    def text(self, label: str, rng: random.Random) -> str:
        """Return one random text of a label with corrected spacing and capitals."""
        return tidy(self.expand(pick(self.texts[label], rng), rng))

    def expand(self, pattern: str, rng: random.Random) -> str:
        """Rewrite a pattern until it has no rules."""

        def choose(match: re.Match[str]) -> str:
            return pick(match.group(1).split("|"), rng)

        def fill(match: re.Match[str]) -> str:
            return self._slot(match.group(1), rng)

        while _CHOICE.search(pattern):
            pattern = _CHOICE.sub(choose, pattern)
        return _SLOT.sub(fill, pattern)

    def _slot(self, name: str, rng: random.Random) -> str:
        if number := _NUMBER.fullmatch(name):
            low, high = int(number.group(1)), int(number.group(2))
            return str(low + int(rng.random() * (high - low + 1)))
        if digits := _DIGITS.fullmatch(name):
            return "".join(str(int(rng.random() * 10)) for _ in range(int(digits.group(1))))
        return self.expand(pick(self.rules[name], rng), rng)


def pick(items: list[str], rng: random.Random) -> str:
    """Return one of the items with equal probability."""
    return items[int(rng.random() * len(items))]


def tidy(text: str) -> str:
    """Collapse white space, use 'an' before vowels, capitalise sentence starts."""
    text = (
        " ".join(text.split())
        .replace(" ,", ",")
        .replace(" .", ".")
        .replace(" ?", "?")
        .replace(" !", "!")
    )
    text = _ARTICLE.sub(lambda match: match.group(1) + "n ", text)
    return _SENTENCE_START.sub(lambda match: match.group(1) + match.group(2).upper(), text)


def distinct_texts(draw: Callable[[], str], count: int, taken: set[str]) -> list[str]:
    """Draw `count` texts that are not in `taken` (in lower case), and add them to it."""
    texts: list[str] = []
    for _ in range(200 * count):
        text = draw()
        if text.lower() not in taken:
            taken.add(text.lower())
            texts.append(text)
        if len(texts) == count:
            return texts
    raise ValueError(f"The grammar has fewer than {count} different texts; add phrases.")
