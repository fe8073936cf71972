"""Nothing outside the private zone depends on a private row, except through the releases.

Each flow runs on a dataset and on the same dataset without one row, with releases replaced by numbers that depend on no
row (tests.support.processes.fixed_releases). All files, databases and output are then equal, except for times and
random ids (tests.support.runs.public_traces), and every step takes as many times ten seconds. Next to each pair the
first run is repeated: what differs between two equal runs is chance.
"""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.paths import DESK, ROOT
from tests.support.processes.fixed_releases import LEAKS, LINGERS
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.runs.public_traces import (
    blamed,
    durations,
    traces,
    without_progress_under_way,
)

FLOWS: dict[str, tuple[str, dict[str, Any]]] = {
    "wasp": ("wasp", {}),
    "wasp kernel": ("wasp", {"method": {"guidance": "kernel"}}),
    "wasp with a corpus": (
        "wasp",
        {
            "method": {"guidance": "kernel"},
            "text_labels": "soft",
            "public_corpus": {
                "path": "builtin:support_desk/public.parquet",
                "source": "a town",
                "licence": "cc-by-4.0",
            },
        },
    ),
    "aug_pe": ("aug_pe", {}),
    "pre_text": ("pre_text", {}),
    "fusegen": ("fusegen", {}),
    "only_private": ("only_private", {}),
    "dp_sgd_gen": ("dp_sgd_gen", {}),
    "dp_sgd_student": ("dp_sgd_student", {}),
    "dp_kps": ("dp_kps", {}),
    "kd_tutor": ("kd_tutor", {}),
}
ROWS = pd.read_parquet(DESK / "private.parquet")
ODD = pd.DataFrame({"text": ["", "what is this"], "label": ["login_problem", "no class"]})
"""A row without text and one of an unknown class."""


@dataclass(frozen=True)
class Declaration:
    """Declaration of an owner about a table: its number of rows, and with `classes` a dataset that has them."""

    rows: int | None = None
    classes: Sequence[str] = ()


NOTHING = Declaration()


@dataclass(frozen=True)
class Outcome:
    """Traces of a run outside the private zone, and the duration of its steps."""

    code: int
    traces: dict[str, list[str]]
    durations: dict[str, int]


def run(
    root: Path,
    flow: str,
    rows: pd.DataFrame,
    declared: Declaration = NOTHING,
) -> Outcome:
    """Run a flow on rows at one and the same place."""
    method, further = FLOWS[flow]
    for folder in ("user", "owner", "home"):
        (root / folder).mkdir(mode=0o700, exist_ok=True)
    key = root / "home" / "private" / "ledger.key"
    key.parent.mkdir(mode=0o700)
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    own = {"HOME": str(root / "user"), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    pipeline = Pipeline(root / "home", extra=own, method=method)
    location = root / "owner" / "rows.parquet"
    private: dict[str, Any] = {"path": str(location), "name": "desk", "rows": declared.rows}
    if declared.classes:
        # The table is registered with a row of each class, and asked once with those of the comparison.
        ROWS.to_parquet(location, index=False)
        declaration = [word for name in declared.classes for word in ("--class", name)]
        if declared.rows is not None:
            declaration += ["--declared-rows", str(declared.rows)]
        pipeline.answer("dataset", "add", "desk", "--path", str(location), *declaration)
        private = {"dataset": "desk"}
    rows.to_parquet(location, index=False)
    config = pipeline.config(private=None if method == "fusegen" else private, **further)
    if method == "only_private":
        pipeline.answer(
            "budget", "cap", "desk", "--epsilon", "inf", "--reason", "no noise", "--declare"
        )
    command = [
        sys.executable,
        "-m",
        "tests.support.processes.fixed_releases",
        "run",
        method,
        "--config",
        str(config),
    ]
    done = subprocess.run(
        [*command, "--json"],
        cwd=ROOT,
        env=pipeline.environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    outcome = Outcome(
        done.returncode, traces(pipeline.home, done.stdout + done.stderr), durations(pipeline.home)
    )
    (root / "home").rename(root / f"home-{sum(1 for _ in root.glob('home*'))}")
    if done.returncode == 0:
        assert last_json(done.stdout)["state"] == "done", done.stdout
    return outcome


def interference(
    root: Path,
    flow: str,
    first: pd.DataFrame,
    second: pd.DataFrame,
    declared: Declaration = NOTHING,
) -> list[str]:
    """Return the differences between runs on two tables that are not chance.

    A step is blamed for its duration if it takes equally long in two runs on the first table, and differently in two
    runs on the second.
    """
    tables = (first, second, first)
    entry, other, again = (run(root, flow, rows, declared) for rows in tables)
    errors = [
        line for run in (entry, other, again) for line in run.traces["output"] if "rror" in line
    ]
    assert (entry.code, other.code, again.code) == (0, 0, 0), errors
    assert_visible(entry)
    timed = slower(entry, again, other)
    if timed:
        timed &= slower(entry, again, run(root, flow, second, declared))
    return [
        *blamed(entry.traces, again.traces, other.traces),
        *sorted(f"duration of {step}" for step in timed),
    ]


def slower(entry: Outcome, again: Outcome, other: Outcome) -> set[str]:
    """Return the steps whose duration is the same in two runs and another in the third."""
    steady = {step for step, time in entry.durations.items() if again.durations.get(step) == time}
    return {step for step in steady if other.durations.get(step) != entry.durations[step]}


def assert_visible(outcome: Outcome) -> None:
    """Fail if the comparison would see nothing: every kind of trace of a run must be there, and not be empty."""
    for ending in (
        "output",
        "prefect.db",
        "mlflow.db",
        "/report.json",
        "/summary.json",
        "/manifest.json",
    ):
        assert any(lines for name, lines in outcome.traces.items() if name.endswith(ending)), ending
    assert outcome.durations


def assert_equal(
    root: Path,
    flow: str,
    first: pd.DataFrame,
    second: pd.DataFrame,
    declared: Declaration = NOTHING,
) -> None:
    result = interference(root, flow, first, second, declared)
    assert not result, "\n".join(result[:20])


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS)
def test_a_run_without_one_row_leaves_the_same_outside_the_private_zone(
    tmp_path: Path, flow: str
) -> None:
    assert_equal(tmp_path, flow, ROWS, ROWS.drop(index=5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "flow", ["wasp", "wasp kernel", "dp_sgd_student", "dp_sgd_gen", "dp_kps", "kd_tutor"]
)
def test_a_run_on_one_row_and_on_none_leave_the_same(tmp_path: Path, flow: str) -> None:
    # Where no classes are declared, the owner's command refuses a table without a fitting row before a run starts
    # (tests/unit/flows/cli/test_class_choice.py): that answer has no noise, and nothing stores it.
    classes = sorted(ROWS["label"].unique())
    number = None if flow.startswith("dp_sgd") else 100
    assert_equal(tmp_path, flow, ROWS.iloc[:1], ROWS.iloc[:0], Declaration(number, classes))


@pytest.mark.slow
@pytest.mark.parametrize(
    "flow", ["wasp", "wasp kernel", "dp_sgd_student", "dp_sgd_gen", "dp_kps", "kd_tutor"]
)
def test_rows_that_cannot_be_used_change_nothing_outside_the_private_zone(
    tmp_path: Path, flow: str
) -> None:
    assert_equal(tmp_path, flow, pd.concat([ROWS, ODD]), ROWS)


@pytest.mark.slow
def test_the_comparison_sees_votes_that_depend_on_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEAKS, "1")
    result = interference(tmp_path, "wasp", ROWS, ROWS.drop(index=5))
    assert any("release.parquet" in difference for difference in result)
    assert not any("duration" in difference for difference in result)


@pytest.mark.slow
def test_the_comparison_sees_a_step_that_takes_longer_with_one_row_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LINGERS, str(len(ROWS)))
    assert interference(tmp_path, "wasp", ROWS, ROWS.drop(index=5)) == [
        "duration of vote t=0",
        "duration of vote t=1",
    ]


# --- the comparison of runs: chance between two equal runs is not blamed, and every other difference is
ONE = {"output": ["a", "random 1"], "plan.json": ["x"]}
AGAIN = {"output": ["a", "random 2"], "plan.json": ["x"]}


@pytest.mark.parametrize(
    ("other", "differences"),
    [
        ({"output": ["a", "random 3"], "plan.json": ["x"]}, []),
        ({"output": ["b", "random 3"], "plan.json": ["x"]}, ["output: a"]),
        (
            {"output": ["a", "random 3"], "plan.json": ["x", "y"], "new": []},
            ["new: only one run has this file", "plan.json: y"],
        ),
    ],
    ids=["chance", "a line that both equal runs have", "files without chance"],
)
def test_what_differs_between_equal_runs_alone_is_chance(
    other: dict[str, list[str]], differences: list[str]
) -> None:
    assert blamed(ONE, AGAIN, other) == differences


def test_only_the_last_line_of_a_works_progress_is_compared() -> None:
    first = "write novelist t=0           1/18  "
    last = "write novelist t=0           18/18  9.1/s"
    other = "embed novelist t=0           7/18  2.0/s"
    assert without_progress_under_way(["a", first, other, last, "b 1/2  c"]) == [
        "a",
        other,
        last,
        "b 1/2  c",
    ]
