"""The study runs, tells of floor and ceiling, and goes on where it was ended; here on made-up vectors, without data."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from flows.releases.opening import measured_cells
from tasks.steps.density import Texts
from tests.studies.guidance import opening
from tests.studies.guidance.__main__ import main, read
from tests.studies.guidance.cells import FLOORS, MECHANISMS, Cell, run
from tests.studies.guidance.corpora import Corpus
from tests.studies.guidance.fusegen import fused, self_boosted
from tests.studies.guidance.told import interval


def small() -> Corpus:
    rng = np.random.default_rng(0)
    labels, centres = ["a", "b"], rng.standard_normal((2, 12))

    def made(number: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
        of = np.arange(number) % 2
        vectors = 2 * centres[of] + rng.standard_normal((number, 12)) + shift
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), np.array(labels)[of]

    vectors, own = made(240, 0.0)
    texts = pd.DataFrame({"text": [f"word{n % 17} word{n % 5} text" for n in range(240)], "label": own})
    texts["plm"] = np.where(np.arange(240) < 120, "x", "y")
    return Corpus("IMDb", texts, vectors, *made(80, 0.5), *made(60, 0.5), ("a word",) * 60)


@pytest.mark.parametrize("mechanism", [*FLOORS, *MECHANISMS])
def test_a_cell_measures_what_the_study_tells(mechanism: str) -> None:
    found = run(small(), Cell(mechanism, math.inf, 40, 0, samples=90, iterations=3, examples=4))
    assert 0 <= found["accuracy"] <= 1
    assert found["fid"] > 0
    if mechanism != "none":
        if mechanism != "fusegen":  # which knows nothing of real rows
            assert found["overlap"] >= {"central": 0.1}.get(mechanism, 0.3)
        assert 0 <= found["weights_tv"] <= 1
    if mechanism not in ("votes", "votes_smoothed"):
        assert found["matched_fid"] > 0


def test_fusegen_chooses_by_students_alone_and_every_model_writes_as_much() -> None:
    corpus, cell = small(), Cell("fusegen", 1.0, 40, 0, samples=90, iterations=3, examples=4)
    found = run(corpus, cell)
    assert found["weights_tv"] == found["equal_tv"]
    assert run(replace(corpus, train=-corpus.train), cell) == found, "no private row says anything"
    places = np.arange(len(corpus.texts))
    texts = Texts(corpus.texts.assign(sample_id=places), corpus.vectors)
    chosen = fused(texts, corpus, 4, 0, 0)
    assert chosen.groupby("label").size().tolist() == [4, 4]
    assert set(chosen["kind"]) == {"good"}
    assert (corpus.texts["label"].to_numpy()[chosen["sample_id"]] == chosen["label"]).all()
    wrong = places % 10 == 0
    flipped = np.where(corpus.texts["label"] == "a", "b", "a")
    mixed = texts.samples.assign(label=np.where(wrong, flipped, corpus.texts["label"]))
    again = self_boosted(replace(texts, samples=mixed), corpus, 0)
    assert again[wrong].mean() < 0.8 * again[~wrong].mean(), "what a student mistakes weighs less"


def test_a_study_ends_with_tables_plots_and_bands_and_is_not_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.studies.guidance.__main__.folder_of_data", lambda: tmp_path)
    monkeypatch.setattr("tests.studies.guidance.__main__.corpus", lambda *_: small())
    asked = ["--folder", str(tmp_path / "out"), "--seeds", "2", "--data", "IMDb", "--rows", "40", "--samples", "90"]
    monkeypatch.setattr("tests.studies.guidance.__main__.ROWS", (40,))
    monkeypatch.setattr("tests.studies.guidance.__main__.PLOTTED", ("fid",))
    main([*asked, "--mechanisms", "votes", "kernel", "--epsilons", "4"])
    book = tmp_path / "out" / "cells.jsonl"
    done = book.read_text()
    assert len(read(book)) == 2 * (len(FLOORS) + 2 * 2)
    main([*asked, "--mechanisms", "votes", "kernel", "--epsilons", "4"])
    assert book.read_text() == done
    with book.open("a") as file:
        file.write(json.dumps({"data": "IMDb"})[:-3])
    assert len(read(book)) == len(done.splitlines()), "a line that was cut short is done again"
    tables = (tmp_path / "out" / "tables.md").read_text()
    parts = [part for part in tables.split("\n\n") if "| zero-shot |" in part or "minus zero-shot |" in part]
    assert len(parts) == 5
    assert "weights, kernel minus equal weights" in tables
    assert "| epsilon 4 | no noise |" in tables, "each grid ends with the ceiling"
    assert all("| FuseGen" in part or "minus FuseGen" in part for part in parts), "the floors stand together"
    assert {one["guidance"] for one in yaml.safe_load((tmp_path / "out" / "measured.yaml").read_text())} == {
        "votes",
        "kernel",
    }
    assert (tmp_path / "out" / "fid.png").read_bytes().startswith(b"\x89PNG")


def test_intervals_are_students() -> None:
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.484), abs=1e-3)
    assert math.isnan(interval([1.0])[1])


def test_the_study_of_opening_writes_gains_over_the_best_floor_as_the_product_reads_them(tmp_path: Path) -> None:
    found = {"zero": 0.5, "zero_soft": 0.6, "head": 0.8, "soft": 0.65, "means": 0.7, "real": 0.9}
    cell = {"data": "Banking", "classes": 10, "rows": 300, "epsilon": 4.0, "index": 27.75, "opening": "cosine"} | found
    closed = cell | {"rows": 100, "index": 2.7, "opening": "none"}
    opening.tell(pd.DataFrame([each | {"seed": seed} for seed in range(2) for each in (cell, closed)]), tmp_path)
    (place,) = yaml.safe_load((tmp_path / "opening.yaml").read_text())
    assert place.keys() == measured_cells()[0].keys()
    assert (place["zero_shot"], place["gain"]) == (0.6, [0.1, -0.05])
    table = (tmp_path / "opening.md").read_text().splitlines()
    assert len({line.count("|") for line in table}) == 1
    assert "+0.300 [+0.300, +0.300] | +0.050 [+0.050, +0.050] | +0.100 [+0.100, +0.100] | -0.050" in table[2]
