"""A corpus is refused before anything is spent unless a release can label it, and its labels follow from that alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import ConfigError, InputError
from flows.engine.corpus_text import FARTHER, corpus_section, describe_nearness
from flows.engine.plan import numbers_of, planned
from flows.engine.prepare import Prepared
from flows.runtime.stores import open_ledger
from tasks.guidance.density import class_means, cosine_to_release
from tasks.guidance.public_corpus import label_corpus
from tasks.guidance.soft_labels import label_softly
from tasks.students.training_set import SOFT, collect
from tests.support.runs.prepared_run import (
    LABELS,
    WORDS,
    config,
    good_rows,
    start,
    table,
    write_texts,
)

KERNEL: dict[str, Any] = {
    "method": {"guidance": "kernel", "iterations": 2},
    "text_labels": "soft",
}


def corpus(path: Path | str, **changes: Any) -> dict[str, Any]:
    return {"path": str(path), "source": "a forum", "licence": "cc-by-4.0", **changes}


def texts_at(path: Path, texts: list[str], column: str = "text") -> Path:
    pd.DataFrame({column: texts}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"public_corpus\.path: .*posts\.csv does not exist"),
        ("text\n", r"posts\.csv has no rows"),
        ("body\nhello\n", r"public_corpus\.text: .*posts\.csv has no column 'text'"),
        ("text,n\nhello,1\n ,2\n", r"(?s)posts\.csv.*row 1, column 'text': is empty"),
    ],
)
def test_a_bad_file_is_named_before_anything_is_spent(
    home: Path, tmp_path: Path, content: str | None, message: str
) -> None:
    file = tmp_path / "posts.csv"
    if content is not None:
        file.write_text(content)
    with pytest.raises((ConfigError, InputError), match=message):
        start(home, **KERNEL, public_corpus=corpus(file))
    assert open_ledger(home).datasets() == []


def test_a_corpus_that_is_the_private_file_is_refused(home: Path, tmp_path: Path) -> None:
    path = table(tmp_path / "rows.parquet", good_rows("private"))
    with pytest.raises(ConfigError, match="public_corpus"):
        start(home, **KERNEL, private={"path": path}, public_corpus=corpus(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text_labels": "written"}, "text_labels is 'written'"),
        ({"text_labels": "auto"}, "text_labels is 'auto'"),
        (
            {
                "method": {"guidance": "auto", "iterations": 2},
                "private": {"declared_rows": 20},
            },
            "no release labels its texts with method.guidance 'auto': 20 rows of 6 classes are too few",
        ),
        (
            {"method": {"guidance": "auto", "iterations": 2}, "private": None},
            "no release labels its texts with method.guidance 'auto': there are no private rows",
        ),
    ],
)
def test_a_run_without_labels_of_a_release_refuses_a_corpus(
    home: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = texts_at(tmp_path / "posts.csv", ["the router is red"])
    settings = KERNEL | {"public_corpus": corpus(file)} | changes
    with pytest.raises(ConfigError, match=f"public_corpus: .*{message}"):
        planned(config(**settings))
    with pytest.raises(ConfigError, match=f"public_corpus: .*{message}"):
        start(home, **settings)


def test_the_plan_states_the_corpus_without_further_releases(home: Path) -> None:
    plain = numbers_of(config(**KERNEL))
    plan = numbers_of(config(**KERNEL, public_corpus=corpus("posts.csv", rows=1200)))
    assert plan["events"] == plain["events"]
    (line,) = set(plan["lines"]) - set(plain["lines"])
    assert line.startswith("corpus        1,200 texts of a forum (cc-by-4.0) join the written ones")
    assert line.endswith("no further epsilon")


def test_a_corpus_with_test_texts_is_refused(home: Path, tmp_path: Path) -> None:
    rows = good_rows("test")
    seen = [rows[0][0].upper(), f"  {rows[1][0]}"]
    file = texts_at(tmp_path / "posts.csv", ["the router is red", *seen])
    test = {"path": table(tmp_path / "test.parquet", rows), "rows": len(rows)}
    with pytest.raises(ConfigError, match="public_corpus: it contains 2 texts of the test rows"):
        start(home, **KERNEL, test=test, public_corpus=corpus(file))
    assert open_ledger(home).datasets() == []


TEXTS = [*(f"{word} and {word}s are broken" for word in WORDS), "Router  AND routers are broken"]
"""Twelve different texts; the last one repeats the first in other capitals and blanks."""


def prepared(home: Path, tmp_path: Path, tag: str = "private") -> Prepared:
    path = table(tmp_path / f"{tag}.parquet", good_rows(tag))
    file = texts_at(tmp_path / "posts.csv", TEXTS)
    private = {"path": path, "name": tag}
    return start(home, **KERNEL, private=private, public_corpus=corpus(file))


def density_of(run: Prepared) -> ArtifactRef:
    """Write made-up sums as the release of a run: that of records about the words of each class."""
    vectors = run.tools.embedder.embed([f"{WORDS[n]} {WORDS[n + 6]}" for n in range(len(LABELS))])
    sums = np.column_stack([np.full(len(LABELS), 20.0), 20.0 * np.asarray(vectors)])
    rows = pd.DataFrame({"row": 0, "sum": np.rint(100 * sums.ravel()).astype(np.int64)})
    info = {"labels": LABELS, "steps": 100.0, "scale_int": 10.0}
    key = StepKey("guidance", 1, {}, {})
    return run.tools.artifacts.write_table("runs/made-up/release.parquet", rows, key, info)


def labelled(run: Prepared) -> tuple[ArtifactRef, pd.DataFrame]:
    """Return the labelled corpus of a run and its whole training set, by the head of the written texts."""
    written = [write_texts(run, number, LABELS) for number in (0, 1)]
    density = density_of(run)
    assert run.corpus is not None
    joined, _ = label_corpus(run.tools, run.corpus, density, written)
    soft, _ = label_softly(run.tools, tuple(LABELS), density, False, written, (joined,))
    synthetic, _ = collect(run.tools, (*written, joined), soft, "a forum")
    return joined.samples, run.tools.artifacts.read_table(synthetic)


def test_public_texts_get_the_nearest_class_and_join_once(home: Path, tmp_path: Path) -> None:
    run = prepared(home, tmp_path)
    samples, rows = labelled(run)
    table_of = run.tools.artifacts.read_table(samples)
    assert table_of["text"].tolist() == TEXTS[:-1]
    assert rows["sample_id"].is_monotonic_increasing
    assert rows["sample_id"].is_unique
    public = rows[rows["source"] == "a forum"]
    assert public["text"].tolist() == TEXTS[:-1]
    assert rows["source"].isin(["a forum", ""]).all()
    assert (public["plm"] == "").all()
    assert set(rows["plm"]) == {"clerk", ""}
    density = density_of(run)
    vectors = run.tools.embedder.embed(TEXTS[:-1])
    nearest = class_means(run.tools.artifacts, density).nearest(vectors).tolist()
    assert public["label"].tolist() == nearest
    assert len(set(nearest)) == 6
    assert np.array(rows[SOFT].tolist()).sum(axis=1) == pytest.approx(1, abs=1e-5)
    of_corpus, of_written = run.tools.artifacts.info(samples)["nearness"]
    assert of_corpus == pytest.approx(cosine_to_release(run.tools.artifacts, density, vectors))
    line = describe_nearness(run.tools, run.card, samples)
    assert f"corpus {of_corpus:.2f}, written texts {of_written:.2f}" in line
    assert (FARTHER in line) == (of_corpus < of_written)
    section = corpus_section(run.tools, run.card, samples)
    assert "learned from 12 texts of a forum (licence cc-by-4.0)" in section.text
    assert section.text.endswith(line)


def test_labels_follow_from_the_release_alone_and_open_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for tag in ("first", "second"):
        folder = tmp_path / tag
        folder.mkdir(mode=0o700)
        monkeypatch.setenv("WASP_HOME", str(folder))
        run = prepared(folder, tmp_path, tag)
        # From here on no step could open a record.
        (tmp_path / f"{tag}.parquet").unlink()
        results.append(labelled(run))
    (first, rows), (second, others) = results
    assert first.sha256 == second.sha256
    pd.testing.assert_frame_equal(rows, others)


def test_lost_vectors_of_a_corpus_are_made_again(home: Path, tmp_path: Path) -> None:
    run = prepared(home, tmp_path)
    samples, _ = labelled(run)
    path = home / samples.path
    path.with_name("vectors.parquet").unlink()
    again, _ = labelled(run)
    assert again.sha256 == samples.sha256
    assert path.with_name("vectors.parquet").exists()
