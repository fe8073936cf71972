"""What sending embeddings in fewer bits costs in votes: shipped texts, MiniLM, against the embeddings as they are."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import connectors
from connectors.embedders.sentence import SentenceEmbedder
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise, calibrate
from tasks.federation.wire import FORMS, Form, packed, seen, unpacked
from tasks.private.nearest.search import rank
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import clean_votes
from tests.benchmarks.race import Line, compare

DATA = Path(connectors.__file__).parent / "data"
VOTES = 8
NOISE: Noise = calibrate(VotePrivacy(4.0, 1e-5, 4, votes=VOTES))


@dataclass(frozen=True)
class Effect:
    """What one form does: bytes of the message, share of votes for another text (near, far, first), total variation."""

    message: int
    near: float
    far: float
    first: float
    variation: float

    def __str__(self) -> str:
        return (
            f"{self.message:,} bytes; other text: {self.near:.2%} near, {self.far:.2%} far, {self.first:.2%} first; "
            f"total variation {self.variation:.3%}"
        )


def election(rows: int, size: int) -> tuple[Ballot, Candidates]:
    """Return shipped rows of support_desk as voters and helpdesk texts, without doubles, to be voted on."""
    embedder = SentenceEmbedder("embedded")
    voters = pd.concat([pd.read_parquet(DATA / "support_desk" / f"{part}.parquet") for part in ("private", "test")])
    texts = pd.read_parquet(DATA / "corpora" / "helpdesk.parquet").drop_duplicates("text")
    voters, texts = (frame.sample(count, random_state=0) for frame, count in ((voters, rows), (texts, size)))
    ballot = Ballot(embedder.embed(voters["text"].tolist()), voters["label"].tolist(), VOTES)
    vectors = embedder.embed(texts["text"].tolist())
    return ballot, Candidates(np.arange(len(texts)), texts["label"].to_numpy(dtype=object), vectors)


def effect(ballot: Ballot, standing: Candidates, form: Form) -> Effect:
    """Compare the votes on candidates sent in `form` with those on the candidates themselves."""
    arrived = unpacked(packed(standing, form))
    before, after = rank(ballot, standing), rank(ballot, arrived)
    near, far = (getattr(before, side) != getattr(after, side) for side in ("near_ids", "far_ids"))
    counts = [clean_votes(ballot, one, NOISE).counts for one in (standing, arrived)]
    variation = np.abs(counts[0] - counts[1]).sum() / 2 / counts[0].sum()
    return Effect(len(packed(standing, form)), near.mean(), far.mean(), near[:, 0].mean(), float(variation))


def wire(tiny: bool) -> list[Line]:
    """Packing and unpacking in each form, with what it does to the votes; against bytes of numpy."""
    ballot, standing = election(*((20, 60) if tiny else (420, 1200)))
    lines: list[Line] = []
    for form in FORMS:

        def ours(form: Form = form) -> Any:
            return unpacked(packed(standing, form))

        def peer() -> Any:
            return np.frombuffer(standing.vectors.tobytes(), dtype=np.float32)

        if not np.array_equal(ours().vectors, seen(standing.vectors, form)):
            raise AssertionError("what arrives is not what the coordinator takes for it")
        found = compare("wire", f"{len(standing.ids)} texts, {form}", ours, {"numpy tobytes": peer}, 1 if tiny else 5)
        lines += [replace(one, note=str(effect(ballot, standing, form))) for one in found]
    return lines
