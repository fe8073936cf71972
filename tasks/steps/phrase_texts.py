"""Step that writes phrase sequences as texts: DP-KPS without a language model.

This is the ablation of the paper.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.models import Usage
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key
from tasks.core.tools import Tools
from tasks.keyphrases.phrases import as_text
from tasks.steps.generate import ROW_TYPES
from tasks.text.class_balance import Shares, texts_per_class
from tasks.text.keyphrase_prompts import read_sequences

WRITER = "phrases"
"""Value of the language model column for these texts."""


@dataclass(frozen=True, slots=True)
class PhraseRows:
    """The `count` sequences to write as texts, balanced or by `shares`."""

    sequences: ArtifactRef
    labels: tuple[str, ...]
    count: int
    shares: Shares = ()


def write(tools: Tools, job: PhraseRows) -> tuple[Written, str]:
    """Write the sequences as texts of iteration 0, without duplicates in a class."""
    path = f"runs/{tools.run_id}/iteration=0/plm={WRITER}/samples.parquet"
    parameters: dict[str, object] = {"labels": list(job.labels), "count": job.count}
    if job.shares:
        parameters["shares"] = list(job.shares)
    key = step_key("phrases", parameters, {"sequences": job.sequences.sha256})

    def make() -> ArtifactRef:
        counts = texts_per_class(job.count, job.labels, shares=job.shares)
        table = _table(tools, job, counts)
        missing = {label: count - int((table["label"] == label).sum()) for label, count in counts.items()}
        info = {"usage": asdict(Usage()), "failures": {}, "down": ""}
        info["shortfall"] = {label: count for label, count in missing.items() if count}
        return tools.artifacts.write_table(path, table, key, info)

    ref, why = make_once(tools.artifacts, path, key, make)
    return Written(WRITER, 0, ref), why


def _table(tools: Tools, job: PhraseRows, counts: dict[str, int]) -> pd.DataFrame:
    sequences = read_sequences(tools.artifacts.read_table(job.sequences))
    rows = [
        {"text": text, "label": label, "attribute": "", "plm": WRITER, "iteration": 0, "prompt_key": ""}
        for label, count in counts.items()
        for text in dict.fromkeys(as_text(phrases) for phrases in sequences[label][:count])
    ]
    defaults = {"finish_reason": "stop", "tokens_in": 0, "tokens_out": 0}
    numbered = [{"sample_id": number, **row, **defaults} for number, row in enumerate(rows)]
    return pd.DataFrame(numbered, columns=list(ROW_TYPES)).astype(ROW_TYPES)
