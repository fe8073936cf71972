"""The student of the teachers, and the texts that it takes for private; nothing here costs privacy.

Song et al. 2024, Eq. 2: tutor -> texts -> teachers -> noisy answers -> student -> texts that it takes for private, as
many of each class as the tutor says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.models import Usage
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key
from tasks.core.tools import Tools
from tasks.private.releases.teachers import CLASSES
from tasks.steps.teachers import TeacherSpec, embedder_of, shown_to, sure_of, texts_of
from tasks.steps.texts import content, read_samples, read_vectors
from tasks.students.spec import TrainingRows, settings
from tasks.students.train import load_student, train_student
from tasks.text.class_balance import Shares, texts_per_class
from tasks.text.prompts import seed_of

TOLD = "told.json"
"""Beside the student: how many queries it learned from, and how many of them were answered 'private'."""

SELECTED = "selected"
"""Folder of the texts that were chosen, in an iteration."""


@dataclass(frozen=True, slots=True)
class SelectSpec:
    """Keep `count` of the texts, of each class its part by `shares`.

    `best`: those that the student takes for private most surely; else any of those that it takes for private, drawn by
    `seed`. Where a class has too few of them the next likely ones follow.
    """

    iteration: int
    count: int
    labels: tuple[str, ...]
    shares: Shares
    best: bool
    seed: int


def train_discriminator(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], answers: ArtifactRef, checks: ArtifactRef | None
) -> tuple[ArtifactRef, str]:
    """Train the student discriminator on queries and their noisy labels (Eq. 2), and write it to discriminator/."""
    folder = f"runs/{tools.run_id}/discriminator"
    inputs = {"answers": answers.sha256, "samples": content([one.samples for one in written])}
    key = step_key("distill", {"student": settings(spec.student), "embedder": embedder_of(tools, spec)}, inputs)

    def make() -> ArtifactRef:
        samples = read_samples(tools, written)
        queries = shown_to(len(samples), 0, spec).queries
        if checks is not None:
            queries = tuple(queries[place] for place in sure_of(tools, spec, checks))
        table = tools.artifacts.read_table(answers)["sum"].to_numpy().reshape(-1, len(CLASSES))
        labels = [CLASSES[int(second > first)] for first, second in table]
        texts = texts_of(tools, spec, written, samples, queries)
        rows = TrainingRows(texts.texts, labels, CLASSES, texts.vectors)
        return tools.artifacts.write_folder(folder, lambda place: _distill(spec, rows, place), key)

    return make_once(tools.artifacts, folder, key, make)


def select_texts(
    tools: Tools, spec: SelectSpec, written: Sequence[Written], discriminator: ArtifactRef | None
) -> tuple[list[Written], str]:
    """Keep the texts that the student takes for private, as many of each class as `spec` says.

    Writes selection.parquet (sample_id, score, kept) and a table of the kept texts for every table of `written`.
    Without a discriminator texts are drawn by the seed.
    """
    path = f"runs/{tools.run_id}/selection.parquet"
    inputs = {"samples": content([one.samples for one in written])}
    inputs["discriminator"] = discriminator.sha256 if discriminator else "none"
    key = step_key("select_texts", asdict(spec) | {"labels": list(spec.labels), "shares": list(spec.shares)}, inputs)

    def make() -> ArtifactRef:
        samples = read_samples(tools, written)
        scores = _scores(tools, written, samples, discriminator)
        kept = chosen(samples["label"].tolist(), scores, spec)
        columns = {"sample_id": samples["sample_id"], "score": scores, "kept": kept}
        return tools.artifacts.write_table(path, pd.DataFrame(columns), key)

    selection, why = make_once(tools.artifacts, path, key, make)
    table = tools.artifacts.read_table(selection)
    ids = set(table.loc[table["kept"], "sample_id"].tolist())
    return [_kept(tools, one, ids, key) for one in written], why


def chosen(labels: Sequence[str], scores: np.ndarray[Any, Any], spec: SelectSpec) -> np.ndarray[Any, Any]:
    """Say of each text whether it is kept; `scores`: how likely the student thinks that it is private."""
    drawn = np.random.default_rng(seed_of("select", spec.seed)).permutation(len(labels))
    order = np.lexsort((drawn, -scores)) if spec.best else np.lexsort((drawn, -scores * (scores < 0.5), scores < 0.5))
    counts = texts_per_class(spec.count, spec.labels, shares=spec.shares)
    kept = np.zeros(len(labels), dtype=bool)
    for place in order:
        if counts[labels[place]] > 0:
            counts[labels[place]] -= 1
            kept[place] = True
    return kept


# --- inside
def _distill(spec: TeacherSpec, rows: TrainingRows, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    private = sum(label == CLASSES[1] for label in rows.labels)
    told = {"queries": len(rows.labels), "private": private}
    if 0 < private < len(rows.labels):
        train_student(spec.student, rows, folder)
    (folder / TOLD).write_text(json.dumps(told), encoding="utf-8")


def _scores(
    tools: Tools, written: Sequence[Written], samples: pd.DataFrame, discriminator: ArtifactRef | None
) -> np.ndarray[Any, Any]:
    """Return how likely the student thinks that each text is private; one half where it learned nothing."""
    nothing = np.full(len(samples), 0.5)
    if discriminator is None:
        return nothing
    folder = tools.artifacts.read_folder(discriminator)
    # a classifier that learned from the rows by DP-SGD tells of no queries
    told = (
        {"private": 1, "queries": 2}
        if not (folder / TOLD).exists()
        else json.loads((folder / TOLD).read_text(encoding="utf-8"))
    )
    if not 0 < told["private"] < told["queries"]:
        return nothing
    vectors = read_vectors(tools, written) if all(one.vectors is not None for one in written) else None
    found: np.ndarray[Any, Any] = load_student(folder)(samples["text"].tolist(), vectors).probabilities[:, 1]
    return found


def _kept(tools: Tools, one: Written, ids: set[int], key: StepKey) -> Written:
    """Write the kept texts of one table; who wrote them stays."""
    parts = [f"runs/{tools.run_id}/iteration={one.iteration}", SELECTED, *([one.part] if one.part else [])]
    path = f"{'/'.join(parts)}/plm={one.plm}/samples.parquet"
    mine = step_key("select_texts", {"selection": key.key}, {"samples": one.samples.sha256})

    def make() -> ArtifactRef:
        table = tools.artifacts.read_table(one.samples)
        info = {"usage": asdict(Usage()), "failures": {}, "shortfall": {}, "down": one.down}
        kept = table[table["sample_id"].isin(ids)].reset_index(drop=True)
        return tools.artifacts.write_table(path, kept, mine, info)

    samples, _ = make_once(tools.artifacts, path, mine, make)
    return replace(one, samples=samples, vectors=None, part="/".join(parts[1:]))
