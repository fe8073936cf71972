"""One whole run of each method by the command: the same promises for all, then what each promises of its own."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from connectors.embedders.registry import open_embedder
from connectors.interfaces.rows import RowsRef
from connectors.models.transformers.loading import EMBEDDED
from connectors.rows.reader import read_rows
from flows.config.extends import find_config, merge, read_layers
from tests.support.models.tiny import save_mpnet
from tests.support.runs.pipeline import Pipeline, last_json, values
from tests.support.waits import wait_until

SLOTS = {
    "pre_text": ["vote-0", "vote-1"],
    "aug_pe": ["vote-0", "vote-1"],
    "aug_pe as in WASP": ["vote-0", "vote-1"],
    "dp_kps": ["vocabulary", "density"],
    "kd_tutor": ["labels", "answers"],
    "dp_sgd_gen": ["training"],
    "dp_sgd_student": ["training"],
}
"""The releases of each method in the ledger, in order."""
SAYS = {
    "pre_text": ("discrete",),
    "aug_pe": ("discrete",),
    "aug_pe as in WASP": ("discrete",),
    "dp_kps": ("the number of private rows with each public term", "densities per class"),
    "kd_tutor": (
        "the number of private rows in each class",
        "the answers of the teachers to 20 queries",
    ),
    "dp_sgd_gen": ("12 steps of DP-SGD", "60 of 120 declared rows"),
    "dp_sgd_student": ("steps of DP-SGD",),
}
"""Words in the report of each method."""
METHODS = [pytest.param(name, marks=pytest.mark.slow) if " " in name else name for name in SLOTS]
EVOLUTIONS = ["pre_text", "aug_pe"]
Done = tuple[Pipeline, dict[str, Any]]
Finish = Callable[[str], Done]


@pytest.fixture(scope="module")
def finish(api: str, tmp_path_factory: pytest.TempPathFactory) -> Finish:
    """Return a function that runs a method, once for all tests."""
    runs: dict[str, Done] = {}

    def run(method: str) -> Done:
        if method not in runs:
            pipeline = Pipeline(tmp_path_factory.mktemp("method") / "home", api, method=method)
            runs[method] = pipeline, pipeline.run()
        return runs[method]

    return run


def folder_of(done: Done) -> Path:
    return done[0].home / "runs" / done[1]["run_id"]


def table(done: Done, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder_of(done) / name, partitioning=None)


# --- every method
@pytest.mark.parametrize("method", METHODS)
def test_a_run_ends_whole_within_its_budget_as_planned(finish: Finish, method: str) -> None:
    pipeline, summary = finish(method)
    planned = pipeline.answer("plan", pipeline.flow, "--config", str(pipeline.config()))
    assert (summary["state"], summary["degraded"]) == ("done", False)
    assert pipeline.released() == SLOTS[method]
    assert planned["releases"] == summary["releases"] == len(SLOTS[method])
    assert planned["epsilon_exact"] == pytest.approx(summary["epsilon_spent"], rel=0.01)
    assert 3.0 < summary["epsilon_spent"] <= 4.0 * (1 + 1e-4)
    assert summary["accuracy"] is not None
    texts = values(method)["method"].get("samples", 0)
    assert summary["n_synthetic"] == texts
    if texts:
        rows = pipeline.synthetic(summary["run_id"])
        assert len(rows) == texts
        assert not rows.duplicated(["text", "label"]).any()
        assert method == "kd_tutor" or rows["label"].value_counts().nunique() == 1, (
            "whatever the private rows are"
        )


@pytest.mark.parametrize("method", METHODS)
def test_every_column_of_every_table_is_described_in_its_file(finish: Finish, method: str) -> None:
    done = finish(method)
    columns = {
        (file.name, column.name): column.metadata
        for file in folder_of(done).rglob("*.parquet")
        for column in pq.read_schema(file)
    }
    assert [name for name, about in columns.items() if name[1] != "vector" and not about] == []


@pytest.mark.parametrize("method", METHODS)
def test_a_second_run_draws_charges_and_requests_nothing(finish: Finish, method: str) -> None:
    pipeline, summary = finish(method)
    before = pipeline.releases(summary["run_id"])
    again = pipeline.run()
    assert [again[name] for name in ("run_id", "accuracy", "epsilon_spent")] == [
        summary[name] for name in ("run_id", "accuracy", "epsilon_spent")
    ]
    assert pipeline.releases(summary["run_id"]) == before
    assert pipeline.released() == SLOTS[method]
    verified = pipeline.call("budget", "verify", "desk", code=0)
    assert "missing" not in verified.stdout


@pytest.mark.parametrize("method", METHODS)
def test_report_and_bundle_say_what_was_released(
    finish: Finish, method: str, tmp_path: Path
) -> None:
    pipeline, summary = finish(method)
    page = Path(summary["report"]).read_text(encoding="utf-8")
    for words in (summary["run_id"], *SAYS[method]):
        assert words in page
    guessed = pipeline.answer("predict", summary["run_id"], "a text")
    assert sum(guessed["probabilities"][0].values()) == pytest.approx(1)
    exported = pipeline.call(
        "export", summary["run_id"], str(tmp_path / "bundle"), "--license", "cc0-1.0"
    )
    if method == "dp_sgd_student":
        assert exported.returncode == 2
        assert "has no synthetic texts" in exported.stderr
        report = json.loads((folder_of((pipeline, summary)) / "report.json").read_text())
        assert (Path(report["places"]["student"]) / "student.json").exists()
        assert not [command for command, _ in report["next"] if "export" in command]
        return
    assert exported.returncode == 0, exported.stderr
    card = (tmp_path / "bundle" / "README.md").read_text()
    if method == "kd_tutor":
        assert "selected with private records under differential privacy" in card
        assert "teachers were trained on them privately" in card
        assert "they only voted" not in card


@pytest.mark.parametrize("method", ["wasp", *METHODS])
def test_a_cap_refuses_it_with_three_numbers_before_a_row_is_opened(
    api: str, tmp_path: Path, method: str
) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method=method)
    pipeline.answer("budget", "cap", "desk", "--epsilon", "2", "--declare")
    refused = pipeline.call("run", pipeline.flow, "--config", str(pipeline.config()), "--json")
    assert (refused.returncode, last_json(refused.stdout)["error"]) == (3, "BudgetError"), (
        refused.stderr[-2000:]
    )
    for words in ("needs epsilon", "left", "missing", "Nothing was spent"):
        assert words in refused.stderr
    assert "Traceback" not in refused.stderr
    assert pipeline.entries()[-1]["kind"] == "refuse"
    assert pipeline.released() == []
    assert not [
        *(pipeline.home / "private").glob("embeddings/*"),
        *(pipeline.home / "private").glob("trainings/*"),
    ]


# --- private evolution (PrE-Text, Aug-PE)
@pytest.mark.parametrize("method", EVOLUTIONS)
def test_what_leaves_a_vote_is_one_noisy_count_per_candidate(finish: Finish, method: str) -> None:
    for iteration in (0, 1):
        release = table(finish(method), f"iteration={iteration}/release.parquet")
        assert release.columns.tolist() == ["sample_id", "near"]
        assert (release["near"] % 128 != 0).mean() > 0.7, (
            "a count without noise is a multiple of one vote"
        )


@pytest.mark.parametrize("method", EVOLUTIONS)
def test_every_answer_of_every_model_is_counted_in_the_report(finish: Finish, method: str) -> None:
    done = finish(method)
    prompts = folder_of(done).glob("iteration=*/**/prompts.parquet")
    asked = sum(len(pd.read_parquet(file, partitioning=None)) for file in prompts)
    assert f"{asked:,} calls" in Path(done[1]["report"]).read_text(encoding="utf-8")


def test_texts_have_the_mean_vector_of_their_variations(finish: Finish) -> None:
    folder = folder_of(finish("pre_text")) / "iteration=1"
    (mean,) = folder.glob("ahead=*filler*/mean.parquet")
    ahead = [
        pd.read_parquet(file, partitioning=None)
        for file in sorted(mean.parent.glob("plm=*/samples.parquet"))
    ]
    ids = pd.read_parquet(folder / "varied" / "plm=filler" / "samples.parquet", partitioning=None)[
        "sample_id"
    ]
    stored = pd.read_parquet(mean, partitioning=None).iloc[:, 0]
    embedder = open_embedder("hashing", "", {"dimension": 128})
    texts = pd.concat(ahead)
    for position, number in enumerate(ids[:5]):
        own = texts[texts["parent_id"] == number]["text"].tolist()
        assert own, "every text has variations"
        expected = embedder.embed(own).astype(np.float64).mean(axis=0)
        assert np.frombuffer(stored[position], dtype="<f4") == pytest.approx(expected, abs=1e-6)


# --- DP-KPS
def test_prompts_and_texts_hold_the_drawn_phrases_and_no_class(finish: Finish) -> None:
    done = finish("dp_kps")
    sequences, terms = table(done, "sequences.parquet"), table(done, "vocabulary/terms.parquet")
    known = set(terms["term"])
    drawn = [tuple(json.loads(phrases)) for phrases in sequences["phrases"]]
    assert (len(drawn), len(terms)) == (36, 30)
    assert all(len(phrases) == 4 and set(phrases) <= known for phrases in drawn)
    prompts = pd.concat(
        [table(done, f"iteration=0/plm={plm}/prompts.parquet") for plm in ("clerk", "novelist")]
    )
    first = prompts[prompts["attempt"] == 0]["text"]
    expected = {"; ".join(phrases) for phrases in drawn}
    assert all(any(phrases in text for phrases in expected) for text in first)
    assert not any(label in text for label in set(sequences["label"]) for text in first)
    assert "message to a support desk" in first.iloc[0]
    texts, asked = (
        table(done, "synthetic.parquet"),
        dict(zip(prompts["prompt_key"], prompts["text"], strict=True)),
    )
    texts = texts[texts["plm"] == "clerk"]
    held = [
        phrase.lower() in text.lower()
        for key, text in zip(texts["prompt_key"], texts["text"], strict=True)
        for phrase in asked[key].split("these terms: ")[1].split(".\n")[0].split("; ")
    ]
    assert sum(held) / len(held) > 0.9


def test_the_phrases_alone_can_be_the_texts(finish: Finish) -> None:
    pipeline, first = finish("dp_kps")
    summary = pipeline.run(method={"texts": "phrases"}, plms=[])
    assert summary["run_id"] != first["run_id"]
    assert len(pipeline.released()) == 2, "the same releases serve both"
    assert summary["accuracy"] is not None
    texts = pipeline.synthetic(summary["run_id"])
    assert set(texts["plm"]) == {"phrases"}
    assert all(len(text.split(", ")) == 4 for text in texts["text"])
    report = json.loads((folder_of((pipeline, summary)) / "report.json").read_text())
    assert len(report["map"]["synthetic"]) == 36


def test_the_parts_of_the_paper_run_together(api: str, tmp_path: Path) -> None:
    """GloVe's words, an encoder as all-mpnet-base-v2 and Deep CORAL of dp_kps_dbpedia, each a tiny stand-in."""
    shipped = merge(read_layers(find_config(Path("papers/dp_kps#dp_kps_dbpedia"))))
    texts = read_rows(RowsRef("builtin:support_desk/test.parquet"))
    texts.iloc[90:130][["text", "label"]].to_json(
        tmp_path / "unlabelled.jsonl", orient="records", lines=True
    )
    words = list(
        dict.fromkeys(
            word for text in texts["text"] for word in re.findall(r"[a-z]{3,}", text.lower())
        )
    )
    glove = tmp_path / "glove.6B.300d.txt"
    glove.write_text("\n".join(f"{word} {' '.join(['0.25'] * 300)}" for word in words))
    pipeline = Pipeline(tmp_path / "home", api, method="dp_kps")
    summary = pipeline.run(
        vocabulary={"path": str(glove), "shortest": shipped["vocabulary"]["shortest"]},
        embedder={
            **shipped["embedder"],
            "model": str(save_mpnet(tmp_path / "mpnet")),
            "options": {},
        },
        public={"path": str(tmp_path / "unlabelled.jsonl")},
        student=shipped["student"],
        method={"sampling": shipped["method"]["sampling"], "top": None},
    )
    assert (summary["releases"], summary["degraded"]) == (2, False)
    assert summary["epsilon_spent"] == pytest.approx(4.0, rel=1e-4)
    done = (pipeline, summary)
    assert json.loads((folder_of(done) / "student.json").read_text())["adapted_to"] == 40
    assert set(table(done, "vocabulary/terms.parquet")["term"]) <= set(words)
    sequences = table(done, "sequences.parquet")["phrases"].map(json.loads)
    assert any(len(set(phrases)) < len(phrases) for phrases in sequences), "phrases repeat"


@pytest.mark.slow
def test_aug_pe_requests_with_words_of_a_private_vocabulary(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method="aug_pe")
    method = {"keywords": "private_vocabulary", "disclosure": "none"}
    vocabulary = {"path": "builtin:vocabularies/demo.parquet"}
    summary = pipeline.run(
        method=method, vocabulary=vocabulary, privacy={"vocabulary_epsilon": 1.0}
    )
    assert pipeline.released() == ["vocabulary", "vote-0", "vote-1"]
    assert summary["epsilon_spent"] == pytest.approx(4.0, rel=1e-3)
    known = set(table((pipeline, summary), "vocabulary/terms.parquet")["term"])
    prompts = table((pipeline, summary), "iteration=0/plm=clerk/prompts.parquet")
    named = [text.split(' about "')[1].split('".')[0].split(", ") for text in prompts["text"]]
    assert all(len(set(words)) == 10 and set(words) <= known for words in named)
    assert len({tuple(words) for words in named}) > 5
    assert not prompts["text"].str.contains("login_problem|billing_question", regex=True).any()


# --- teachers and the tutor
def test_each_class_has_its_part_of_what_is_written_and_kept(finish: Finish) -> None:
    done = finish("kd_tutor")
    folder = folder_of(done)
    labels = [line["name"] for line in json.loads((folder / "report.json").read_text())["balance"]]
    counts = table(done, "labels/release.parquet")["sum"].clip(lower=0)
    expected = dict(zip(labels, counts / counts.sum(), strict=True))
    for label, count in table(done, "synthetic.parquet")["label"].value_counts().items():
        assert abs(count - 36 * expected[label]) <= 1.5
    selection = table(done, "selection.parquet")
    assert (len(selection), int(selection["kept"].sum())) == (72, 36)
    assert json.loads((folder / "discriminator" / "told.json").read_text())["queries"] == 20


@pytest.mark.slow
def test_exact_counts_mark_the_run_as_not_private(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method="kd_tutor")
    summary = pipeline.run(class_balance="exact", method={"select": "chance"})
    assert (summary["not_private"], summary["epsilon_spent"]) == (True, None)


@pytest.mark.parametrize("clipping", [pytest.param("hooks", marks=pytest.mark.slow), "ghost"])
def test_texts_are_chosen_by_a_classifier_that_learned_by_dp_sgd(
    api: str, tmp_path: Path, clipping: str
) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method="kd_tutor")
    steps = {"declared_rows": 120, "batch_rows": 60, "steps": 6, "clipping": clipping}
    summary = pipeline.run(method={"select": "dp_sgd", "training": steps})
    assert sorted(pipeline.released()) == ["labels", "training"]
    assert summary["n_synthetic"] == 36
    assert summary["epsilon_spent"] <= 4.0


# --- training by DP-SGD
@pytest.fixture
def desk(api: str, tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path / "home", api, method="dp_sgd_gen")


def steps_of(done: Done) -> dict[str, Any]:
    return dict(table(done, "training/release.parquet").iloc[0])


def test_ledger_and_release_state_the_epsilon_of_all_steps(finish: Finish) -> None:
    pipeline, summary = finish("dp_sgd_gen")
    row = steps_of((pipeline, summary))
    (entry,) = (entry for entry in pipeline.entries() if entry["kind"] == "release")
    assert (row["steps_begun"], row["steps_in_weights"]) == (12, 12)
    assert row["epsilon_of_begun"] == pytest.approx(summary["epsilon_spent"], rel=0.01)
    assert entry["mechanism"] == "dp_sgd"
    assert entry["epsilon"] == pytest.approx(summary["epsilon_spent"], rel=0.01)
    assert "loss curve" not in Path(summary["report"]).read_text()


@pytest.mark.slow
def test_more_texts_of_the_same_training_are_not_paid_again(finish: Finish) -> None:
    pipeline, first = finish("dp_sgd_gen")
    second = pipeline.run(method={"samples": 24})
    assert second["run_id"] != first["run_id"]
    assert (second["n_synthetic"], second["epsilon_spent"]) == (24, first["epsilon_spent"])
    assert len(pipeline.released()) == 1


def counted(pipeline: Pipeline) -> int:
    result = list((pipeline.home / "private" / "trainings").glob("*/steps.npz"))
    if not result:
        return 0
    with np.load(result[0], allow_pickle=False) as remaining:
        return int(remaining["begun"])


def kill_while_it_trains(pipeline: Pipeline, config: Path, at: int) -> int:
    """Kill -9 once so many steps were begun; return how many are then counted."""
    process = pipeline.start("run", pipeline.flow, "--config", str(config), "--json")
    wait_until(lambda: counted(pipeline) >= at, process, every=0.005)
    process.kill()
    process.communicate()
    return counted(pipeline)


def test_killed_while_it_trains_it_goes_on_with_its_count_and_is_charged_once(
    desk: Pipeline,
) -> None:
    method = {"steps": 60}
    config = desk.config(method=method)
    begun = kill_while_it_trains(desk, config, 10)
    assert begun >= 10
    assert len(desk.released()) == 1
    assert kill_while_it_trains(desk, config, begun + 12) >= begun + 12
    summary = desk.run(method=method)
    row = steps_of((desk, summary))
    assert row["steps_begun"] == 60
    assert 60 - 2 * 10 <= row["steps_in_weights"] <= 60
    assert len(desk.released()) == 1
    lost = 60 - int(row["steps_in_weights"])
    assert any(f"{lost} of 60 training steps" in problem for problem in summary["problems"]) == (
        lost > 0
    )


@pytest.mark.slow
def test_a_lost_checkpoint_stops_the_run_until_somebody_pays_again(desk: Pipeline) -> None:
    config = desk.config(method={"steps": 60})
    kill_while_it_trains(desk, config, 5)
    for position in (desk.home / "private" / "trainings").glob("*/steps.npz"):
        position.unlink()
    stopped = desk.call("run", desk.flow, "--config", str(config), "--json", code=1)
    assert "--respend" in stopped.stderr
    assert len(desk.released()) == 1
    paid = desk.run(method={"steps": 60}, privacy={"on_lost_artifacts": "respend"})
    assert len(desk.released()) == paid["releases"] == 2
    assert paid["epsilon_spent"] > 4


def test_a_chat_model_is_prompted_with_the_plain_text_that_it_learned(
    desk: Pipeline, tmp_path: Path
) -> None:
    chat = shutil.copytree(EMBEDDED, tmp_path / "chat")
    (chat / "chat_template.jinja").write_text("{{ messages[0].content }} Answer:")
    desk.run(plms=[{"name": "learner", "connector": "hf", "model": str(chat)}])
    (tuned,) = (desk.home / "models").glob("*/training.json")
    assert AutoTokenizer.from_pretrained(chat).chat_template
    assert AutoTokenizer.from_pretrained(tuned.parent).chat_template is None


def test_without_noise_the_run_is_marked(desk: Pipeline) -> None:
    summary = desk.run(privacy={"epsilon": "inf"})
    assert summary["epsilon_spent"] is None
    assert "training of the model, without noise" in Path(summary["report"]).read_text()
