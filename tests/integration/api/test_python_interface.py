"""The Python interface, by the notebook that ships and by its errors."""

import subprocess
import sys
from pathlib import Path

import pytest

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
