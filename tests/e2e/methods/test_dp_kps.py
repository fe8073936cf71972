"""DP-KPS by the command: two charges, everything found again, phrases in the prompts and no class, what refuses it."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from connectors.interfaces.rows import RowsRef
from connectors.rows.reader import read_rows
from tests.support.models.tiny import save_mpnet
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, last_json


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, dict[str, Any]]:
    pipeline = Pipeline(tmp_path_factory.mktemp("kps") / "home", api, method="dp_kps")
    return pipeline, pipeline.run()


def table(finished: tuple[Pipeline, dict[str, Any]], name: str) -> pd.DataFrame:
    pipeline, summary = finished
    return pd.read_parquet(pipeline.home / "runs" / summary["run_id"] / name, partitioning=None)


def released(pipeline: Pipeline) -> list[dict[str, Any]]:
    entries = last_json(pipeline.call("budget", "history", "desk", "--json").stdout)["entries"]
    return [entry for entry in entries if entry["kind"] == "release"]


def test_both_parts_are_charged_once_and_a_second_run_reuses_all(finished: tuple[Pipeline, dict[str, Any]]) -> None:
    pipeline, summary = finished
    assert (summary["releases"], summary["n_synthetic"]) == (2, 36)
    assert summary["epsilon_spent"] == pytest.approx(4.0, rel=1e-4)
    assert [entry["slot"] for entry in released(pipeline)] == ["vocabulary", "density"]
    again = pipeline.run()
    assert (again["accuracy"], again["epsilon_spent"]) == (summary["accuracy"], summary["epsilon_spent"])
    assert len(released(pipeline)) == 2
    verified = pipeline.call("budget", "verify", "desk")
    assert verified.returncode == 0
    assert "missing" not in verified.stdout
    page = (pipeline.home / "runs" / summary["run_id"] / "report.html").read_text()
    assert "how many documents contain each public term" in page


def test_prompts_hold_the_drawn_phrases_and_no_class(finished: tuple[Pipeline, dict[str, Any]]) -> None:
    sequences, terms = table(finished, "sequences.parquet"), table(finished, "vocabulary/terms.parquet")
    known = set(terms["term"])
    drawn = [tuple(json.loads(phrases)) for phrases in sequences["phrases"]]
    assert len(drawn) == 36
    assert len(terms) == 30
    assert all(len(set(phrases)) == 4 and set(phrases) <= known for phrases in drawn)
    by_plm = []
    for plm in ("clerk", "novelist"):
        prompts = table(finished, f"iteration=0/plm={plm}/prompts.parquet")
        by_plm.append(prompts[prompts["attempt"] == 0])
    asked = pd.concat(by_plm)
    wanted = {"; ".join(phrases) for phrases in drawn}
    assert all(any(one in text for one in wanted) for text in asked["text"])
    assert not any(label in text for label in set(sequences["label"]) for text in asked["text"])
    assert "message to a support desk" in asked["text"].iloc[0]


def test_texts_hold_their_phrases(finished: tuple[Pipeline, dict[str, Any]]) -> None:
    texts, prompts = table(finished, "synthetic.parquet"), table(finished, "iteration=0/plm=clerk/prompts.parquet")
    asked = dict(zip(prompts["prompt_key"], prompts["text"], strict=True))
    mine = texts[texts["plm"] == "clerk"]
    held = []
    for key, text in zip(mine["prompt_key"], mine["text"], strict=True):
        phrases = asked[key].split("these terms: ")[1].split(".\n")[0].split("; ")
        held += [phrase.lower() in text.lower() for phrase in phrases]
    assert sum(held) / len(held) > 0.9


def test_the_phrases_alone_can_be_the_texts(finished: tuple[Pipeline, dict[str, Any]]) -> None:
    pipeline, first = finished
    summary = pipeline.run(method={"texts": "phrases"}, plms=[], evaluation={"map": "tsne"})
    assert summary["run_id"] != first["run_id"]
    assert len(released(pipeline)) == 2, "the same releases serve both"
    assert summary["accuracy"] is not None
    texts = pipeline.synthetic(summary["run_id"])
    assert set(texts["plm"]) == {"phrases"}
    assert all(len(text.split(", ")) == 4 for text in texts["text"])
    report = json.loads((pipeline.home / "runs" / summary["run_id"] / "report.json").read_text())
    assert report["map"]["by"] == "t-SNE"
    assert len(report["map"]["synthetic"]) == 36


@pytest.mark.runs
def test_the_parts_of_the_paper_run_together(api: str, tmp_path: Path) -> None:
    """GloVe's words, an encoder as all-mpnet-base-v2 and Deep CORAL of dp_kps_dbpedia.yaml, each a tiny stand-in."""
    shipped = yaml.safe_load((ROOT / "deployments/configs/papers/dp_kps_dbpedia.yaml").read_text())
    texts = read_rows(RowsRef("builtin:support_desk/test.parquet"))
    texts.iloc[90:130][["text", "label"]].to_json(tmp_path / "unlabelled.jsonl", orient="records", lines=True)
    words = list(dict.fromkeys(word for text in texts["text"] for word in re.findall(r"[a-z]{3,}", text.lower())))
    glove = tmp_path / "glove.6B.300d.txt"
    glove.write_text("\n".join(f"{word} {' '.join(['0.25'] * 300)}" for word in words))
    pipeline = Pipeline(tmp_path / "home", api, method="dp_kps")
    method = {name: shipped["method"][name] for name in ("sampling", "repeats", "ensemble")}
    summary = pipeline.run(
        vocabulary={"path": str(glove), "shortest": shipped["vocabulary"]["shortest"]},
        embedder={**shipped["embedder"], "model": str(save_mpnet(tmp_path / "mpnet")), "options": {"offline": True}},
        public={"path": str(tmp_path / "unlabelled.jsonl")},
        student=shipped["student"],
        method={**method, "top": None},
    )
    assert (summary["releases"], summary["degraded"]) == (2, False)
    assert summary["epsilon_spent"] == pytest.approx(4.0, rel=1e-4)
    run = pipeline.home / "runs" / summary["run_id"]
    assert json.loads((run / "student.json").read_text())["adapted_to"] == 40
    assert set(pd.read_parquet(run / "vocabulary/terms.parquet", partitioning=None)["term"]) <= set(words)
    sequences = pd.read_parquet(run / "sequences.parquet", partitioning=None)["phrases"].map(json.loads)
    assert any(len(set(phrases)) < len(phrases) for phrases in sequences), "phrases repeat"


@pytest.mark.slow
def test_aug_pe_asks_with_words_of_a_private_vocabulary(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method="aug_pe")
    method = {"keywords": "private_vocabulary", "disclosure": "none", "vocabulary_terms": 20, "words": 2}
    shared = {"vocabulary": {"path": "builtin:vocabularies/demo.parquet"}, "privacy": {"vocabulary_epsilon": 1.0}}
    planned = last_json(
        pipeline.call("plan", "aug_pe", "--config", str(pipeline.config(method=method, **shared)), "--json").stdout
    )
    summary = pipeline.run(method=method, **shared)
    assert [entry["slot"] for entry in released(pipeline)] == ["vocabulary", "vote-0", "vote-1"]
    assert summary["releases"] == planned["releases"] == 3
    assert summary["epsilon_spent"] == pytest.approx(planned["epsilon_exact"], rel=1e-4) == pytest.approx(4.0, rel=1e-3)
    found = (pipeline, summary)
    known = set(table(found, "vocabulary/terms.parquet")["term"])
    prompts = table(found, "iteration=0/plm=clerk/prompts.parquet")
    named = [text.split(' about "')[1].split('".')[0].split(", ") for text in prompts["text"]]
    assert all(len(set(words)) == 2 and set(words) <= known for words in named)
    assert len({tuple(words) for words in named}) > 5
    assert not prompts["text"].str.contains("login_problem|billing_question", regex=True).any()
