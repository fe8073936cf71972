"""Embedded n-gram language models: stubs that run without download, key or accelerator.

They exercise the pipeline in tests and offline. Their texts are rarely grammatical; use another connector for results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np

from connectors.artifacts.hash_cache import HASHES
from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import ConfigError, InputError
from connectors.interfaces.models import Completion, Keep, ModelSpec, keep_nothing
from connectors.interfaces.prompts import Cloze, Prompt, Seeded
from connectors.models.base.registry import refuse_unknown
from connectors.models.ngram.conditioning import Topic, TopicIndex, words_in
from connectors.models.ngram.filler import Filler
from connectors.models.ngram.kneser_ney import KneserNey
from connectors.models.ngram.seeded import SeededWriter
from connectors.models.ngram.tokens import Truecaser, tokenise
from connectors.models.ngram.writer import Phrases, Style, Voice, Writer

VERSION = 1
"""Part of `identity`; raise it whenever the same prompt would get another completion."""

CORPORA = Path(__file__).parents[2] / "data" / "corpora"

RANGES = {
    "order": (2, 6),
    "temperature": (0.1, 5.0),
    "cache": (0.0, 0.99),
    "discount": (0.0, 20.0),
    "label_weight": (0.0, 1.0),
}


@dataclass(frozen=True, slots=True)
class NgramOptions:
    """Options of a configuration.

    corpus: helpdesk, letters, stories, or a path (Parquet with columns text and optionally label; or a text file with
    one text per line). order: longest n-gram. temperature: p is raised to 1/temperature. cache: share of the good
    examples' n-grams, 0 to 0.99. discount: strength against the bad examples' n-grams, 0 is off. label_weight: share of
    the label's own model, 0 to 1.
    """

    corpus: str = "helpdesk"
    order: int = 4
    temperature: float = 0.85
    cache: float = 0.35
    discount: float = 1.0
    label_weight: float = 0.7

    @classmethod
    def read(cls, spec: ModelSpec) -> NgramOptions:
        """Check the options of a spec; ConfigError with the invalid one and a correction."""
        refuse_unknown(spec, [option.name for option in fields(cls)])
        options = cls(**{"corpus": spec.model or cls().corpus, **spec.options})
        if not isinstance(options.order, int):
            raise ConfigError(f"Model '{spec.name}': order must be a whole number, got {options.order!r}.")
        for name, (low, high) in RANGES.items():
            value = getattr(options, name)
            if not (isinstance(value, int | float) and low <= value <= high):
                raise ConfigError(f"Model '{spec.name}': {name} must be a number from {low} to {high}, got {value!r}.")
        return options


class NgramModel:
    """A language model of word n-grams, trained on a small corpus on first use.

    It lets every pipeline run anywhere in seconds; it does not write well. It follows the label with a model of the
    label's own texts. For labels that the corpus does not have, it uses the texts that share words with label,
    attribute and description, and puts the label's words into openings. It fills masks (a `Cloze`, see `filler`) and
    weaves phrases in (a `Seeded`, see `seeded`). It moves towards good examples (an n-gram cache interpolated with the
    model) and away from bad ones: p(w) is multiplied by (p / (p + p_bad))**discount (see `writer`). The completion of a
    prompt does not depend on the batch.
    """

    def __init__(self, name: str, options: NgramOptions) -> None:
        self._name, self._options = name, options
        self._texts, self._labels, corpus = _read_corpus(options.corpus, name)
        self._identity = canonical({"connector": "ngram", "version": VERSION, **asdict(options), "corpus": corpus})
        self._topics: dict[tuple[str, ...], tuple[Phrases, KneserNey | None, float]] = {}
        self._trained: _Learned | None = None
        self._training = Lock()

    @property
    def _learned(self) -> _Learned:
        """The trained model; a plan or a finished run never needs training."""
        with self._training:
            if self._trained is None:
                self._trained = _Learned.of(self._texts, self._labels, self._options.order)
            return self._trained

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> NgramModel:
        """Open the model of a configuration.

        ConfigError for invalid options, InputError for an invalid corpus file.
        """
        return cls(spec.name, NgramOptions.read(spec))

    def __reduce__(self) -> tuple[type[NgramModel], tuple[str, NgramOptions]]:
        # Training again is faster than sending the tables to another process.
        return NgramModel, (self._name, self._options)

    @property
    def name(self) -> str:
        """Name in the run."""
        return self._name

    @property
    def identity(self) -> str:
        """Connector, version, digest of the corpus and options."""
        return self._identity

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the corpus texts."""
        return tuple(sorted(set(self._labels) - {""}))

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Write one text per prompt, in order; pass each to `keep`. Tokens are words."""
        completions = []
        for position, prompt in enumerate(prompts):
            completion = self._complete_one(prompt)
            keep(position, completion)
            completions.append(completion)
        return completions

    def _complete_one(self, prompt: Prompt) -> Completion:
        seed = hashlib.sha256((self._identity + prompt.key).encode()).digest()
        rng = np.random.default_rng(int.from_bytes(seed[:16], "big"))
        if isinstance(prompt, Cloze):
            return self._filled(prompt, rng)
        good, bad = (self._tokens(side) for side in (prompt.good, prompt.bad))
        voice = self._voice(prompt)
        if isinstance(prompt, Seeded):
            text, finished = SeededWriter(voice, prompt.phrases, good, rng).write(max(1, prompt.max_tokens))
        else:
            text, finished = Writer(voice, good, bad, rng).write(max(1, prompt.max_tokens))
        return Completion(
            text=text,
            finish_reason="stop" if finished else "length",
            tokens_in=len(prompt.text.split()),
            tokens_out=len(text.split()),
        )

    def _filled(self, cloze: Cloze, rng: np.random.Generator) -> Completion:
        tokens = [token for text in self._tokens([cloze.source]) for token in text]
        text = Filler(self._voice(cloze), tokens, rng).fill(cloze) if tokens else ""
        return Completion(text, tokens_in=len(cloze.text.split()), tokens_out=len(text.split()))

    def _tokens(self, texts: Sequence[str]) -> list[list[str]]:
        case = self._learned.case
        return [case.lower_starts(tokens) for text in texts if (tokens := tokenise(text))]

    def _voice(self, prompt: Prompt) -> Voice:
        options, learned = self._options, self._learned
        own = learned.labels.get(_plain(prompt.label))
        style = Style(options.temperature, options.cache, options.discount)
        if own is not None:
            return Voice(learned.general, own, options.label_weight, (), learned.lengths, style)
        key = (prompt.label, prompt.attribute, prompt.description)
        if key not in self._topics:
            topic = Topic.of(prompt)
            self._topics[key] = (topic.phrases, *learned.index.learn(topic, learned.general))
        phrases, special, trust = self._topics[key]
        return Voice(learned.general, special, options.label_weight * trust, phrases, learned.lengths, style)


@dataclass(frozen=True, slots=True, eq=False)
class _Learned:
    """A trained model of all texts and of each label, with a topic index."""

    case: Truecaser
    general: KneserNey
    lengths: tuple[int, ...]
    index: TopicIndex
    labels: dict[str, KneserNey]

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[str], order: int) -> _Learned:
        """Train on texts with their plain labels ('' if there is none)."""
        raw = [tokenise(text) for text in texts]
        case = Truecaser(raw)
        tokens = [case.lower_starts(text) for text in raw]
        general = KneserNey(tokens, order)
        own = {
            label: KneserNey(
                [text for text, text_label in zip(tokens, labels, strict=True) if text_label == label],
                order,
                vocabulary=general.vocabulary,
            )
            for label in sorted(set(labels) - {""})
        }
        return cls(case, general, tuple(len(text) for text in tokens), TopicIndex(tokens), own)


def _plain(label: str) -> str:
    return "_".join(words_in(label))


def _read_corpus(corpus: str, name: str) -> tuple[Sequence[str], Sequence[str], str]:
    """Return texts, plain labels ('' if there is none) and a digest of both."""
    shipped = CORPORA / f"{corpus}.parquet"
    path = shipped if shipped.is_file() else Path(corpus)
    if not path.is_file():
        names = sorted(file.stem for file in CORPORA.glob("*.parquet"))
        raise InputError(f"Model '{name}': corpus '{corpus}' is neither one of {', '.join(names)} nor a file.")
    try:
        sha256 = HASHES.sha256(path)
    except OSError as error:
        raise InputError(f"Corpus file {path} cannot be read ({error}).") from error
    texts, plain, content_digest = _read_file(sha256, path)
    if not texts:
        raise InputError(f"Model '{name}': corpus file {path} contains no text. Use one text per line or row.")
    return texts, plain, content_digest


@lru_cache(maxsize=8)
def _read_file(_: str, path: Path) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Read a corpus file, cached by its hash: a comparison opens its models per cell."""
    texts, labels = _read_parquet(path) if path.suffix == ".parquet" else _read_lines(path)
    entries = [(text, _plain(label)) for text, label in zip(texts, labels, strict=True) if tokenise(text)]
    return tuple(text for text, _ in entries), tuple(label for _, label in entries), digest(entries)


def _read_lines(path: Path) -> tuple[list[str], list[str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Corpus file {path} cannot be read as UTF-8 text ({error}).") from error
    return lines, [""] * len(lines)


def _read_parquet(path: Path) -> tuple[list[str], list[str]]:
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"Corpus file {path} cannot be read as Parquet ({error}).") from error
    if "text" not in table:
        raise InputError(f"Corpus file {path} has no column 'text'; it has {', '.join(map(str, table.columns))}.")
    texts = table["text"].fillna("").astype(str).tolist()
    labels = table["label"].fillna("").astype(str).tolist() if "label" in table else [""] * len(texts)
    return texts, labels
