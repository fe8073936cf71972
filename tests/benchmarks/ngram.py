"""How fast embedded language models write, against a draw from a distribution over their vocabulary."""

from dataclasses import replace

import numpy as np
import pandas as pd

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.ngram.model import CORPORA, NgramModel
from connectors.models.ngram.tokens import tokenise
from tests.benchmarks.race import Line, compare

GOOD = ("My router drops the connection every evening.", "The invoice shows two charges for the same month.")
BAD = ("The moon rose over the silent hills.", "She closed the book and thought of the sea.")


def ngram(tiny: bool) -> list[Line]:
    """Texts of one label, without and with good and bad examples."""
    model = NgramModel.from_spec(ModelSpec("clerk", "ngram", "helpdesk"))
    vocabulary = {word for text in pd.read_parquet(CORPORA / "helpdesk.parquet")["text"] for word in tokenise(text)}
    masses, lines = np.random.default_rng(0).random(len(vocabulary)), []
    for case, good, bad in (("zero-shot", (), ()), ("contrastive", GOOD, BAD)):
        prompts = [
            Prompt("Write one.", model.labels[0], good=good, bad=bad, seed=seed) for seed in range(2 if tiny else 100)
        ]
        words = sum(answer.tokens_out for answer in model.complete(prompts))

        def draws(words: int = words) -> None:
            rng = np.random.default_rng(0)
            for _ in range(words):
                sums = np.cumsum(masses)
                np.searchsorted(sums, rng.random() * sums[-1])

        peer = "one draw per word"
        found = compare("ngram", case, lambda p=prompts: model.complete(p), {peer: draws}, 1 if tiny else 5)
        note = "words/s; the peer draws from an array of the vocabulary's size and looks nothing up"
        lines += [replace(one, note=f"{words / one.ours_seconds:,.0f} {note}") for one in found]
    return lines
