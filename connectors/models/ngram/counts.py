"""Interpolated n-gram model over words, with absolute discounting, and its words.

Source: Chen and Goodman 1998, section 2.6 (absolute discounting, Ney et al. 1994).
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from random import Random

ORDER = 4
DISCOUNT = 0.75
SEARCHED = 32
"""Words after a context that are searched at each draw; the first positions of more words are kept."""
START = "<s>"
END = "</s>"
"""Start and end of a text."""

_TOKEN = re.compile(r"\d+(?:[.,:/]\d+)*%?|\w+(?:[-'\u2019.@&/]\w+)*|\.{2,}|[!?]{2,}|[^\w\s\"']")
_NEEDLESS_SPACE = re.compile(r" (?=[,.!?;:)\]}%…\u2019/])|(?<=[(\[{#£$€/]) ")
_SENTENCE_START = re.compile(r"(?:^|(?<=[^.][.!?] ))\w")


def tokenise(text: str) -> list[str]:
    """Split a text into words, numbers and punctuation marks without quotes; case is preserved."""
    return _TOKEN.findall(text)


def ends_sentence(token: str) -> bool:
    """Return True for a full stop, exclamation or question marks, not for an ellipsis."""
    return token[0] in "!?" or tuple(token) == (".",)


def lower_starts(tokens: Sequence[str]) -> list[str]:
    """Return the tokens with lower-case words at sentence starts; 'I' and 'USB' keep their case."""
    lowered = list(tokens)
    is_start = True
    for position, token in enumerate(tokens):
        if is_start and len(token) > 1 and token[1:].islower():
            lowered[position] = token.lower()
        is_start = ends_sentence(token)
    return lowered


def detokenise(tokens: Sequence[str]) -> str:
    """Join tokens into a text with normal spacing, and capitals at sentence starts."""
    text = _NEEDLESS_SPACE.sub("", " ".join(tokens))
    return _SENTENCE_START.sub(lambda start: start[0].upper(), text)


class Ngrams:
    """An n-gram model of texts (words).

    p(w|h) = max(c(hw) - D, 0) / c(h) + D N(h) / c(h) * p(w|h'), h' = h without its first word. c are counts, N(h) is
    the number of different words after h. Unigrams have no discount; an unseen context uses h'.
    """

    def __init__(self, texts: Iterable[Sequence[str]], order: int = ORDER) -> None:
        self.order = order
        self._followers: dict[tuple[str, ...], list[str]] = defaultdict(list)
        self._counts = lru_cache(maxsize=None)(lambda context: Counter(self._followers[context]))
        self._likeliest = lru_cache(maxsize=None)(self._find_likeliest)
        self._first_positions: dict[tuple[str, ...], frozenset[int]] = {}
        for text in texts:
            padded = (*[START] * (order - 1), *text, END)
            for position in range(order - 1, len(padded)):
                for length in range(order):
                    self._followers[padded[position - length : position]].append(padded[position])

    def _contexts(self, history: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the known contexts at the end of a text's first words, the longest first."""
        padded = (*[START] * (self.order - 1), *history[-self.order :])
        contexts = (padded[len(padded) - length :] for length in range(self.order - 1, -1, -1))
        return [context for context in contexts if context in self._followers]

    def probability(self, word: str, history: Sequence[str]) -> float:
        """Return p(word|history)."""
        return self._mass(word, self._contexts(history))

    def likeliest(self, history: Sequence[str]) -> str:
        """Return the word with the largest p(.|history)."""
        return self._likeliest(tuple(self._contexts(history)))

    def _find_likeliest(self, contexts: tuple[tuple[str, ...], ...]) -> str:
        """Compare the words after the longest context with the likeliest one of the next: others have less."""
        words = dict.fromkeys(self._counts(contexts[0]))
        if contexts[1:]:
            words[self._likeliest(contexts[1:])] = None
        return max(words, key=lambda word: self._mass(word, contexts))

    def _mass(self, word: str, contexts: Sequence[tuple[str, ...]]) -> float:
        total = 0.0
        share = 1.0
        for context in contexts:
            counts = self._counts(context)
            size = len(self._followers[context])
            discount = DISCOUNT
            if not context:  # nothing is shorter than a unigram, so its mass goes nowhere else
                discount = 0.0
            total += share * max(counts[word] - discount, 0.0) / size
            share *= discount * len(counts) / size
        return total

    def draw(self, history: Sequence[str], rng: Random) -> str:
        """Draw a word with p(.|history)."""
        for context in self._contexts(history):
            words = self._followers[context]
            position = int(rng.random() * len(words))
            # Discounting takes D of each word's first occurrence, and passes it to the shorter context.
            if not context or not self._is_first(context, position) or rng.random() >= DISCOUNT:
                return words[position]
        return END

    def _is_first(self, context: tuple[str, ...], position: int) -> bool:
        """Return whether the word at a position after a context occurs nowhere before it."""
        words = self._followers[context]
        if len(words) <= SEARCHED:
            return words.index(words[position]) == position
        firsts = self._first_positions.get(context)
        if firsts is None:
            positions: dict[str, int] = {}
            for index, word in enumerate(words):
                positions.setdefault(word, index)
            firsts = frozenset(positions.values())
            self._first_positions[context] = firsts
        return position in firsts


def fit_likelihood(texts: Sequence[str]) -> Callable[[str], float]:
    """Return a function for the mean log word probability under a model of `texts`.

    An unknown word counts as a tenth of a uniformly drawn word of their vocabulary.
    """
    known = [tokenise(text.lower()) for text in texts]
    model = Ngrams(known)
    size = len({START, END, *(word for words in known for word in words)})

    def score(text: str) -> float:
        words = tokenise(text.lower())
        masses = [model.probability(word, words[:end]) for end, word in enumerate(words)]
        return sum(math.log(max(mass, 0.1 / size)) for mass in masses) / max(len(masses), 1)

    return score
