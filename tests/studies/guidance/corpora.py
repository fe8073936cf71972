"""What a study stands on: real rows, and a pool of texts that language models wrote, with their vectors; made once.

IMDb has the recorded outputs of six language models. Other data sets have texts of the three embedded ones: half of
a pool is written without examples, half under prompts that show random ones of the first half, so that there is
something to follow. All rows are public benchmarks; the folder of a cache is never part of the repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from connectors.embedders.sentence import SentenceEmbedder
from connectors.interfaces.models import ModelSpec
from connectors.models.ngram.model import NgramModel
from flows.config.task_files import load_task
from tasks.steps.generate import WritingRequest, generate
from tasks.text.cleaning import normalised
from tests.support import paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

CORPORA = {"clerk": "helpdesk", "writer": "letters", "novelist": "stories"}
RECORDED = ("gpt2-xl", "llama-2-7b-chat-hf", "vicuna-7b-1.5v", "opt-6.7b", "chatglm3-6b-base", "flan-t5-xl")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of one data set: its folder and task, how many train and test rows, and how many texts of each PLM."""

    folder: str
    task: str
    train: int
    test: int
    texts: int


DATA = {
    "IMDb": Wanted("imdb", "imdb", 2000, 600, 1000),
    "Banking": Wanted("banking10", "banking10", 1401, 199, 1500),
    "Yelp-Rating": Wanted("yelp_rating", "yelp_rating", 4000, 800, 1500),
    "Yelp-Category": Wanted("yelp_category", "yelp_category", 4000, 800, 1500),
    "DBPedia": Wanted("dbpedia14", "dbpedia14", 4000, 800, 1540),
    "ICLR": Wanted("iclr2024_abstracts", str(Path(__file__).with_name("iclr_area.yaml")), 1320, 360, 1500),
}
"""A part of the rows of DBPedia and Yelp, so that embedding takes minutes. ICLR is kept apart: no choice used it."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """One data set: `texts` (text, label, plm) of all PLMs with `vectors`, real rows to take and to test."""

    name: str
    texts: pd.DataFrame
    vectors: Floats
    train: Floats
    train_labels: NDArray[Any]
    test: Floats
    test_labels: NDArray[Any]
    test_texts: tuple[str, ...]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The classes."""
        return tuple(sorted(self.texts["label"].unique()))

    def labels_of(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the names of numbered classes."""
        return np.array(self.labels)[numbers]

    @cached_property
    def plms(self) -> tuple[str, ...]:
        """The writers."""
        return tuple(dict.fromkeys(self.texts["plm"]))

    @cached_property
    def words(self) -> Any:
        """Hashed word counts of the texts, as `connectors.models.base.recorded_draws` compares them."""
        from sklearn.feature_extraction.text import HashingVectorizer

        from connectors.models.base.recorded_draws import FEATURES

        settings: dict[str, Any] = {"n_features": FEATURES, "alternate_sign": False, "stop_words": "english"}
        return HashingVectorizer(**settings).transform(self.texts["text"])


def folder_of_data() -> Path | None:
    """Return the folder of the data (the variable WASP_DATA, or beside the repository); None if there is none."""
    return paths.DATA if paths.DATA.is_dir() else None


def corpus(name: str, data: Path, cache: Path) -> Corpus:
    """Return a corpus from the cache, or make it: minutes, most of them embedding."""
    place = cache / name.lower()
    if not (place / "done").exists():
        _make(DATA[name], data, place)
    arrays = np.load(place / "vectors.npz")
    real = pd.read_parquet(place / "rows.parquet")
    train = (real["part"] == "train").to_numpy()
    labels = real["label"].to_numpy(dtype=str)
    vectors, rows = arrays["texts"], arrays["rows"]
    texts = pd.read_parquet(place / "texts.parquet")
    held_out = tuple(real["text"][~train])
    return Corpus(name, texts, vectors, rows[train], labels[train], rows[~train], labels[~train], held_out)


def _make(wanted: Wanted, data: Path, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    texts = _recorded(data, wanted.texts) if wanted.folder == "imdb" else _written(wanted)
    parts = []
    for part, number in (("train", wanted.train), ("test", wanted.test)):
        frame = pd.read_parquet(data / wanted.folder / f"{part}.parquet")[["text", "label"]]
        parts.append(frame.sample(n=min(number, len(frame)), random_state=0).assign(part=part))
    rows = pd.concat(parts, ignore_index=True)
    embedder = SentenceEmbedder("embedded")
    vectors = {"texts": _embedded(embedder, texts["text"]), "rows": _embedded(embedder, rows["text"])}
    texts.to_parquet(place / "texts.parquet")
    rows.to_parquet(place / "rows.parquet")
    np.savez(place / "vectors.npz", **vectors)
    (place / "done").write_text("vectors of all texts are there\n", encoding="utf-8")


def _recorded(data: Path, number: int) -> pd.DataFrame:
    found = []
    for name in RECORDED:
        frame = pd.read_parquet(data / "plm_outputs" / "imdb" / f"{name}.parquet")
        frame = frame[frame["source"] == "zero_shot"].sample(n=number, random_state=0)
        found.append(frame[["text", "label"]].assign(plm=name))
    return _distinct(pd.concat(found, ignore_index=True))


def _written(wanted: Wanted) -> pd.DataFrame:
    card = load_task(wanted.task)
    each = wanted.texts // 2 // len(card.label_names)
    counts = dict.fromkeys(card.label_names, each)
    found: list[pd.DataFrame] = []
    shown: tuple[dict[str, tuple[str, ...]], ...] = ({}, {})
    for iteration in (0, 1):
        for index, (name, text) in enumerate(CORPORA.items()):
            model = NgramModel.from_spec(ModelSpec(name, "ngram", text))
            request = WritingRequest(card, name, index, iteration, counts, good=shown[0], bad=shown[1])
            found.append(generate(model, request).rows[["text", "label", "plm"]])
        texts = pd.concat(found, ignore_index=True)
        of = {label: tuple(texts[texts["label"] == label]["text"]) for label in card.label_names}
        shown = tuple({label: own[side::2] for label, own in of.items()} for side in (0, 1))
    return _distinct(texts)


def _distinct(texts: pd.DataFrame) -> pd.DataFrame:
    twice = (texts["label"] + "\x00" + texts["text"].map(normalised)).duplicated()
    return texts[~twice].reset_index(drop=True)


def _embedded(embedder: SentenceEmbedder, texts: Sequence[str] | pd.Series[str]) -> Floats:
    return np.asarray(embedder.embed(list(texts)), dtype=np.float32)
