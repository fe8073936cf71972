"""The command `wasp reproduce` as a process: data, page, kill -9, and two processes with one store."""

import hashlib
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.runs.pipeline import SMALL, Pipeline, last_json, written
from tests.support.servers.files import FileServer, file_server, recipe_values
from tests.support.servers.prepared_databases import prepare_home

REDIRECT = """
from pathlib import Path
import connectors.rows.recipe_outputs as outputs
outputs.RECIPES = Path({folder!r})
"""
"""Code at the start of each process: the recipes of the test in place of the shipped ones."""
PREPARED_MEANWHILE = """
import flows.reproduce.data_files as data_files
from flows.data.obtain import DataFolder
from flows.data.recipes import read_recipe
look = data_files.missing_sets
def prepare_and_look(files):
    DataFolder(files[0].folder).obtain("mine", read_recipe("mine"), lambda _: True)
    return look(files)
data_files.missing_sets = prepare_and_look
"""
"""Code at the start of a process: another one prepares the data after this one has read its cells."""
TITLES = ("First", "Second")


@pytest.fixture
def origin() -> Iterator[FileServer]:
    rows = pd.read_parquet(ROOT / "connectors/data/support_desk/private.parquet")
    with file_server() as server:
        server.files["/set/rows.csv"] = rows.to_csv(index=False).encode()
        yield server


@pytest.fixture
def pipeline(origin: FileServer, tmp_path: Path) -> Pipeline:
    """Return the command in an empty home, with a recipe and a paper of two comparisons."""
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    rows = origin.files["/set/rows.csv"]
    recipe = recipe_values(origin, sha256=hashlib.sha256(rows).hexdigest())
    (recipes / "mine.yaml").write_text(yaml.safe_dump(recipe))
    pipeline = Pipeline(tmp_path / "home", extra={"WASP_DATA": str(tmp_path / "data")})
    pipeline.home.mkdir(mode=0o700)
    prepare_home(pipeline.home)
    written(tmp_path / "small.yaml", small(tmp_path))
    items = []
    for number, title in enumerate(TITLES, 1):
        file = written(tmp_path / f"{title.lower()}.yaml", comparison(tmp_path, title, number))
        items.append({"tables": [number], "about": title, "here": [str(file)]})
    items.append({"figures": [1], "about": "a drawing", "reason": "nothing to measure"})
    paper = {"title": "Mine", "citation": "Nobody 2026", "items": items}
    written(tmp_path / "mine.yaml", paper | {"quick": {"method.samples": 24, "test.rows": 30}})
    return pipeline.patched(REDIRECT.format(folder=str(recipes)))


def small(folder: Path) -> dict[str, Any]:
    private = {"path": "mine/train.parquet", "name": "mine", "rows": 100}
    private["rows_are_public"] = True
    method = SMALL["method"] | {"iterations": 2, "samples": 36}
    return SMALL | {"private": private, "data_root": str(folder / "data"), "method": method}


def comparison(folder: Path, title: str, votes: int) -> dict[str, Any]:
    rows = [
        {
            "name": name,
            "config": str(folder / "small.yaml"),
            "set": {"method.votes": votes, "method.contrast": contrast},
            "published": {"accuracy": {"all": 0.9 - 0.1 * (not contrast)}},
        }
        for name, contrast in (("with", True), ("without", False))
    ]
    return {"flow": "compare", "title": title, "rows": rows, "seeds": [0, 1], "workers": 1}


def arguments(pipeline: Pipeline, *options: str) -> list[str]:
    return ["reproduce", str(pipeline.home.parent / "mine.yaml"), *options]


def started(text: str) -> list[str]:
    """Return the names of the cells that a process started."""
    return re.findall(r"cell started  (\w+ · all · seed \d)", text)


def finished_runs(pipeline: Pipeline) -> Counter[str]:
    """Return the number of finished runs of each flow."""
    runs = pipeline.answer("runs")["runs"]
    return Counter(run["flow"] for run in runs if run["state"] == "done")


def test_a_paper_is_reproduced_from_an_empty_home(origin: FileServer, pipeline: Pipeline) -> None:
    refused = pipeline.call(*arguments(pipeline), code=2)
    assert "licence    CC0" in refused.stderr
    assert "Missing data: mine. Their licences need your agreement" in refused.stderr
    assert origin.requests == []

    quick = pipeline.call(
        *arguments(pipeline, "--table", "1", "--quick", "--yes", "--json"), code=1
    )
    value = last_json(quick.stdout)
    assert len(origin.requests) == 1
    assert (value["state"], value["claims"], value["judged"]) == ("incomplete", 1, 0)
    assert [item["name"] for item in value["items"]] == ["Table 1"]
    assert len(started(quick.stderr)) == 2
    page = Path(value["page"])
    assert page.parent.name == "reproduce-mine-table-1-quick"
    assert "No claim is judged" in page.read_text()

    whole = pipeline.call(*arguments(pipeline, "--table", "1", "--json"), code=0)
    value = last_json(whole.stdout)
    assert (value["state"], value["claims"], value["judged"]) == ("judged", 1, 1)
    assert len(set(started(whole.stderr))) == len(started(whole.stderr)) == 4
    shown = Path(value["page"]).with_name("page.md").read_text()
    assert "mine, which states no digest" in shown
    cells = pq.read_table(Path(value["page"]).with_name("cells.parquet"))
    assert cells.num_rows == 4
    assert all(field.metadata[b"description"] for field in cells.schema)
    # The figures of the page are those of the runs.
    (line,) = [entry for entry in shown.splitlines() if "without below with" in entry]
    accuracy = cells.to_pandas().set_index(["row", "seed"])["accuracy"]
    pairs = [accuracy["without", seed] - accuracy["with", seed] for seed in (0, 1)]
    assert f"{sum(pairs) / 2:+.3f}" in line
    assert "| 2 of 2 |" in line

    again = pipeline.call(*arguments(pipeline, "--table", "1"), code=0)
    assert started(again.stderr) == []
    assert "temporary server" not in again.stderr
    assert len(origin.requests) == 1
    assert finished_runs(pipeline)["wasp"] == 6


def test_data_that_another_process_prepares_meanwhile_belong_to_the_cells(
    pipeline: Pipeline,
) -> None:
    late = pipeline.patched(PREPARED_MEANWHILE)
    done = late.call(*arguments(late, "--table", "1", "--json"), code=0)
    value = last_json(done.stdout)
    assert (value["state"], value["judged"]) == ("judged", 1)


def test_a_plan_names_the_missing_data_and_runs_nothing(
    origin: FileServer, pipeline: Pipeline
) -> None:
    done = pipeline.call(*arguments(pipeline, "--plan"), code=0)
    assert "missing data  mine: the command asks, and fetches them first" in done.stdout
    assert "does not exist" not in done.stderr
    assert origin.requests == []
    assert not (pipeline.home / "runs").exists()


def test_a_plan_states_other_problems_than_missing_data(pipeline: Pipeline) -> None:
    folder = pipeline.home.parent
    for title in TITLES:
        values = yaml.safe_load((folder / f"{title.lower()}.yaml").read_text())
        values["rows"][1]["set"] = {"test.path": str(folder / "nowhere.csv")}
        written(folder / f"{title.lower()}.yaml", values)
    done = pipeline.call(*arguments(pipeline, "--plan", "--json"), code=2)
    value = last_json(done.stdout)
    assert value["missing"] == ["mine"]
    assert [entry["failing"] for entry in value["comparisons"]] == [2, 2]
    assert all("nowhere.csv does not exist" in problem for problem in value["problems"])


def test_an_item_that_nothing_measures_is_not_reproduced(pipeline: Pipeline) -> None:
    done = pipeline.call(*arguments(pipeline, "--figure", "1"), code=1)
    assert "Figure 1       nothing to measure" in done.stdout
    assert (
        "not measured  no comparison of this machine measures it, hence exit code 1" in done.stdout
    )
    assert "claim was judged" not in done.stdout


def start(pipeline: Pipeline, log: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "flows.cli.main", *arguments(pipeline, "--yes")]
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=pipeline.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
        )


def test_two_processes_divide_the_cells_among_themselves(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    processes = [start(pipeline, log) for log in logs]
    codes = [process.wait(timeout=500) for process in processes]
    texts = [log.read_text() for log in logs]
    assert codes == [0, 0], texts
    cells = [name for text in texts for name in started(text)]
    # Each name is in both comparisons.
    assert Counter(cells) == {
        f"{row} · all · seed {seed}": 2 for row in ("with", "without") for seed in (0, 1)
    }
    assert all(started(text) for text in texts), "both took part"
    assert "cell failed" not in "".join(texts)
    assert finished_runs(pipeline)["wasp"] == 8


def test_a_killed_reproduction_resumes_with_its_finished_cells(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    log = tmp_path / "killed.log"
    process = start(pipeline, log)
    deadline = time.monotonic() + 400
    # The first comparison is finished with its first seed, and the second one has begun.
    while len(started(log.read_text())) < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = started(log.read_text())
    page = pipeline.home / "runs/reproduce-mine/page.md"
    assert "2 of 4 cells" in page.read_text()

    done = pipeline.call(*arguments(pipeline), code=0)
    after = started(done.stderr)
    # The cell that was killed starts again; finished ones do not.
    assert len(after) == 8 - (len(before) - 1)
    assert finished_runs(pipeline)["wasp"] == 8
