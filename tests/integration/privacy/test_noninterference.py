"""Nothing outside the private zone depends on a private row, except through the releases.

Each flow runs on a dataset and on the same dataset without one row, with releases replaced by numbers that depend on no
row (tests.support.processes.fixed_releases). All files, databases and output are then equal, except for times and
random ids (tests.support.runs.public_traces).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import connectors.data
from tests.support.paths import ROOT
from tests.support.processes.fixed_releases import LEAKS
from tests.support.runs.method_configs import FUSEGEN, ONLY_PRIVATE, config_file
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.runs.public_traces import differences, traces

FLOWS: dict[str, tuple[str, dict[str, Any]]] = {
    "wasp": ("wasp", {}),
    "wasp with first choices": ("wasp", {"method": {"weights_from": "counts"}}),
    "wasp votes_smoothed": ("wasp", {"method": {"guidance": "votes_smoothed"}}),
    "wasp kernel": ("wasp", {"method": {"guidance": "kernel"}}),
    "wasp subspace": ("wasp", {"method": {"guidance": "subspace"}}),
    "wasp clusters": ("wasp", {"method": {"guidance": "clusters"}}),
    "aug_pe": ("aug_pe", {}),
    "pre_text": ("pre_text", {}),
    "fusegen": ("fusegen", {}),
    "only_private": ("only_private", {}),
    "dp_sgd_gen": ("dp_sgd_gen", {}),
    "dp_sgd_student": ("dp_sgd_student", {}),
    "dp_kps": ("dp_kps", {}),
    "kd_tutor": ("kd_tutor", {}),
}
ROWS = pd.read_parquet(Path(connectors.data.__file__).parent / "support_desk" / "private.parquet")
ODD = pd.DataFrame({"text": ["", "what is this"], "label": ["login_problem", "no class"]})
"""A row without text and one of an unknown class."""


def run(root: Path, flow: str, rows: pd.DataFrame, declared: int | None = None) -> tuple[int, dict[str, list[str]]]:
    """Run a flow on rows at one and the same place; return the exit code and what it left outside the private zone."""
    method, further = FLOWS[flow]
    for folder in ("user", "owner", "home"):
        (root / folder).mkdir(mode=0o700, exist_ok=True)
    key = root / "ledger.key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    own = {"WASP_LEDGER_KEY_FILE": str(key), "HOME": str(root / "user"), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    pipeline = Pipeline(root / "home", extra=own, method="wasp" if method in ("fusegen", "only_private") else method)
    rows.to_parquet(root / "owner" / "rows.parquet", index=False)
    private = {"path": str(root / "owner" / "rows.parquet"), "name": "desk", "rows": declared}
    if method == "fusegen":
        config = config_file(pipeline, FUSEGEN)
    elif method == "only_private":
        config = config_file(pipeline, ONLY_PRIVATE, private=private)
        lifted = pipeline.call("budget", "cap", "desk", "--epsilon", "inf", "--reason", "no noise", "--declare")
        assert lifted.returncode == 0, lifted.stderr
    else:
        config = pipeline.config(private=private, **further)
    command = [sys.executable, "-m", "tests.support.processes.fixed_releases", "run", method, "--config", str(config)]
    done = subprocess.run(
        [*command, "--json"], cwd=ROOT, env=pipeline.environment, capture_output=True, text=True, timeout=600
    )
    found = traces(pipeline.home, done.stdout + done.stderr)
    (root / "home").rename(root / f"home-{sum(1 for _ in root.glob('home*'))}")
    if done.returncode == 0:
        assert last_json(done.stdout)["state"] == "done", done.stdout
    return done.returncode, found


def assert_equal(root: Path, flow: str, first: pd.DataFrame, second: pd.DataFrame, declared: int | None = None) -> None:
    (code, one), (other_code, other) = run(root, flow, first, declared), run(root, flow, second, declared)
    assert (code, other_code) == (0, 0), [line for line in one["output"] + other["output"] if "rror" in line]
    found = differences(one, other)
    assert not found, "\n".join(found[:20])


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS)
def test_a_run_without_one_row_leaves_the_same_outside_the_private_zone(tmp_path: Path, flow: str) -> None:
    assert_equal(tmp_path, flow, ROWS, ROWS.drop(index=5))


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["wasp", "wasp kernel", "dp_sgd_student", "dp_sgd_gen", "dp_kps", "kd_tutor"])
def test_a_run_on_one_row_and_on_none_leave_the_same(tmp_path: Path, flow: str) -> None:
    assert_equal(tmp_path, flow, ROWS.iloc[:1], ROWS.iloc[:0], None if flow.startswith("dp_sgd") else 100)


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["wasp", "wasp kernel", "dp_sgd_student", "dp_sgd_gen", "dp_kps", "kd_tutor"])
def test_rows_that_cannot_be_used_change_nothing_outside_the_private_zone(tmp_path: Path, flow: str) -> None:
    assert_equal(tmp_path, flow, pd.concat([ROWS, ODD]), ROWS)


@pytest.mark.slow
def test_the_comparison_sees_votes_that_depend_on_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEAKS, "1")
    (_, one), (_, other) = run(tmp_path, "wasp", ROWS), run(tmp_path, "wasp", ROWS.drop(index=5))
    assert any("release.parquet" in difference for difference in differences(one, other))
