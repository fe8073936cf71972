"""The Python interface, by the notebook that ships and by its errors."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from flows.api.wasp.datasets import Dataset
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline

NOTEBOOK = ROOT / "docs" / "tutorials" / "notebook.py"


def python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = Pipeline(folder / ".wasp").environment | {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'flows/api'}"
    }
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500
    )


@pytest.mark.runs
def test_the_notebook_runs_in_an_empty_folder(tmp_path: Path) -> None:
    done = python(tmp_path, str(NOTEBOOK))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("1.99999")
    assert "['README.md', 'croissant.json'" in done.stdout
    assert "4.0 0.0 True" in done.stdout
    assert "'notes' is registered" in done.stdout
    assert (tmp_path / "out" / "synthetic.parquet").exists()


def test_an_unknown_name_is_the_message_of_the_command(tmp_path: Path) -> None:
    code = "import wasp\ntry:\n    wasp.plan('nosuch')\nexcept wasp.WaspError as error:\n    print(error)"
    done = python(tmp_path, "-c", code)
    assert "no shipped configuration of this name" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("tasks.py", "from wasp import plan"),
        ("connectors/__init__.py", "import connectors, wasp"),
        ("flows/hello.py", "import wasp; wasp.runs()"),
    ],
)
def test_a_file_of_the_project_with_the_name_of_a_package_is_reported(
    tmp_path: Path, file: str, code: str
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    imported, examined = python(tmp_path, "-c", code), python(tmp_path, "-m", "wasp", "doctor")
    hides_ours = file != "flows/hello.py"
    assert imported.returncode == hides_ours, imported.stderr
    assert examined.returncode != 0
    for printed in (imported.stderr, examined.stdout + examined.stderr):
        assert (
            f"{tmp_path / file}: Python imports {'it' if hides_ours else 'the package'}" in printed
        )
        assert "Rename it, or install the command in an environment of its own" in " ".join(
            printed.split()
        )
    assert "Traceback" not in examined.stderr


COMPLETION = """
import wasp
print(dir(wasp) == sorted(wasp.__all__))
print(all(hasattr(wasp, name) for name in dir(wasp)), dir(wasp) == sorted(wasp.__all__))
"""


def test_completion_offers_the_interface_before_and_after_its_first_use(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", COMPLETION)
    assert done.stdout == "True\nTrue True\n", done.stderr


STARTED = """
import json, pathlib, wasp
print(len(wasp.runs()))
for number in (1, 2):
    folder = pathlib.Path(".wasp/runs", f"wasp-{number}")
    folder.mkdir(parents=True)
    begun = {"run_id": folder.name, "flow": "wasp", "state": "done", "started": f"2026-11-2{number}T10:00:00+00:00"}
    (folder / "manifest.json").write_text(json.dumps(begun) if number == 1 else "broken")
started = wasp.runs()["started"]
print(started.dtype.kind, started.isna().sum(), started.max().year)
"""


def test_the_start_of_a_run_is_a_time(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", STARTED)
    assert done.stdout == "0\nM 1 2026\n", done.stdout + done.stderr


FRAME = """
import pandas as pd, traceback, wasp
frame = pd.DataFrame({"text": ["a very private note", "another one"], "label": ["a", "b"], "who": [1, 2]})
print(wasp.Dataset.register("clinic", frame, person="who").name)
mixed = frame.assign(text=["a very private note", 7])
for wrong in ([frame], frame["text"], frame.drop(columns="label"), mixed, frame.assign(text="")):
    try:
        wasp.Dataset.register("other", wrong)
    except Exception:
        print(traceback.format_exc())
"""


def test_a_data_frame_is_registered_and_no_error_shows_its_rows(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", FRAME)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("clinic\n")
    assert "rows: list is not supported" in done.stdout
    assert "rows: Series is not supported" in done.stdout
    assert "has no column 'label'" in done.stdout
    assert "none of the 2 rows can be used" in done.stdout
    assert "PRIVATE-STEP" in done.stdout
    assert "a very private" not in done.stdout + done.stderr
    (stored,) = (tmp_path / ".wasp/private/datasets").iterdir()
    assert (stored.name, stored.stat().st_mode & 0o777) == ("clinic.parquet", 0o600)


STORED = """
import json, pathlib, wasp
for number, state in ((1, "done"), (2, "failed")):
    folder = pathlib.Path(".wasp/runs", f"wasp-{number}")
    folder.mkdir(parents=True)
    begun = {"run_id": folder.name, "flow": "wasp", "state": state, "started": f"2026-11-2{number}T10:00:00+00:00"}
    (folder / "manifest.json").write_text(json.dumps(begun))
summary = {"run_id": "wasp-1", "flow": "wasp", "epsilon_spent": 2.0, "accuracy": 0.75, "report": "report.html"}
pathlib.Path(".wasp/runs/wasp-1/summary.json").write_text(json.dumps(summary))
first = wasp.result("wasp-1")
print(first.summary["accuracy"], first.details.epsilon_spent, first.details.metrics["accuracy"])
for call in (lambda: wasp.result("latest"), lambda: wasp.result("nosuch"), lambda: wasp.resume("nosuch")):
    try:
        call()
    except wasp.WaspError as error:
        print(error)
"""


def test_a_finished_run_is_opened_by_its_id(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", STORED)
    lines = done.stdout.splitlines()
    assert lines[0] == "0.75 2.0 0.75", done.stderr
    assert lines[1].startswith("Run wasp-2 is not finished. Finish it with: wasp.resume('wasp-2')")
    assert all("there is no run 'nosuch'" in line for line in lines[2:]), lines
    assert len(lines) == 4


ADVICE = """
import wasp
few = wasp.advise(rows=20, classes=10, epsilon=0.5)
print(few["opens"], few["needed_epsilon"] is not None, wasp.advise(rows=4000, classes=4, epsilon=4)["opens"])
try:
    wasp.advise(rows=20)
except wasp.WaspError as error:
    print(error)
changes = {"plms": [{"name": "letters", "connector": "ngram", "model": "letters"}]}
seen = wasp.preview("demo", changes, rows=1)
print(list(seen.texts.columns), len(seen.texts), seen.dollars, type(seen.findings).__name__)
planned = wasp.compare("compare_here", plan=True)
print(planned["cells"] > 1, len(wasp.runs()))
"""


def test_rows_without_a_name_are_refused_with_the_way_to_register_them() -> None:
    with pytest.raises(TypeError, match=r"Register them with wasp.Dataset.register\(NAME, rows"):
        Dataset([{"text": "private words", "label": "a"}])  # type: ignore[call-arg]
    dataset = Dataset(name="a", cap=1.0, delta=1e-5, spent=0.0, group=("a",))
    assert pickle.loads(pickle.dumps(dataset)) == dataset


def test_advice_preview_and_the_plan_of_a_comparison_run_nothing(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", ADVICE)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "False True True",
        "--classes: write a positive number, or name a configuration with --config.",
        "['plm', 'label', 'text', 'reason', 'remarks'] 6 0.0 tuple",
        "True 0",
    ]


PAGE = """
import pathlib
import wasp
pathlib.Path("table.html").write_text('<h1 title="x">Made up</h1>')
made = wasp.Comparison({"run_id": "compare-1", "cells": [], "table": "table.html"})
print(made._repr_html_())
"""


def test_a_notebook_shows_the_page_of_a_comparison(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", PAGE)
    assert done.stdout.startswith('<iframe sandbox="allow-scripts" srcdoc="'), done.stderr
    assert "&lt;h1 title=&quot;x&quot;&gt;Made up&lt;/h1&gt;" in done.stdout


TABLES = """
import pyarrow as pa, wasp
rows = [{"text": "a very private note", "label": 1}, {"text": "another one", "label": None}] * 3
print(wasp.Dataset.register("listed", rows).name)
print(wasp.Dataset.register("arrow", pa.Table.from_pylist(rows)).name)
"""


def test_lists_and_tables_of_arrow_are_registered(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", TABLES)
    assert (done.stdout, "a very private" in done.stderr) == ("listed\narrow\n", False), done.stderr
