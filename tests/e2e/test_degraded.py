"""One PLM of several is down: the run stops before a charge, or continues without it, says so, and takes it back."""

import json
from pathlib import Path

import pytest

from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import call_api

ENOUGH = {"samples": 144}
"""Enough texts of each class for a vote where one of two models writes none."""

CONTINUE = {"execution": {"on_model_down": "continue"}}
GOOD = {"name": "clerk", "connector": "ngram", "model": "helpdesk"}


@pytest.fixture
def pipeline(api: str, tmp_path: Path) -> Pipeline:
    """Let the model 'novelist' refuse every call until a file says that it is back."""
    code = f"""
import pathlib
import connectors.models.ngram.model as m
from connectors.interfaces.errors import FinalError
whole = m.NgramModel.complete
def complete(self, prompts, *rest):
    if self.name == 'novelist' and not pathlib.Path({str(tmp_path / "back")!r}).exists():
        raise FinalError('novelist: the key is not valid')
    return whole(self, prompts, *rest)
m.NgramModel.complete = complete
"""
    return Pipeline(tmp_path / "home", api).patched(code)


def step_states(api: str, run: str) -> dict[str, tuple[str, str]]:
    """Return the states of the steps that write texts in a flow run, by model."""
    tasks = call_api(api, "/task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    return {
        task["name"].split()[1]: (task["state_type"], task["state_name"])
        for task in tasks
        if task["name"].startswith("generate")
    }


def test_the_rest_writes_all_texts_and_the_run_says_who_was_down(
    pipeline: Pipeline, api: str, tmp_path: Path
) -> None:
    stopped = pipeline.call("run", "wasp", "--config", str(pipeline.config(method=ENOUGH)), code=1)
    assert (
        "1 of 2 PLMs are down in iteration 0, before a release that would be charged"
        in stopped.stderr
    )
    assert (
        "novelist: novelist: the key is not valid. To continue without them, run again with"
        in stopped.stderr
    )
    assert "The reserved budget was returned" in stopped.stderr
    (manifest,) = (tmp_path / "home" / "runs").glob("*/manifest.json")
    first = json.loads(manifest.read_text())["prefect_run_id"]
    assert step_states(api, first) == {
        "novelist": ("FAILED", "Model down"),
        "clerk": ("COMPLETED", "Completed"),
    }
    summary = pipeline.run(method=ENOUGH, **CONTINUE)
    assert summary["state"] == "done"
    last = call_api(api, f"/flow_runs/{summary['prefect_run_id']}")
    assert (last["state_type"], last["state_name"]) == ("COMPLETED", "Degraded")
    assert (
        "Degraded: novelist was down in iteration 0: novelist: the key" in last["state"]["message"]
    )
    assert summary["degraded"] is True
    assert summary["n_synthetic"] == 144, "the others made up for it"
    assert any(
        "novelist was down in iteration 0: novelist: the key is not valid" in entry
        for entry in summary["problems"]
    )
    rows = pipeline.synthetic(summary["run_id"])
    assert set(rows["plm"]) == {"clerk"}
    assert "novelist was down" in Path(summary["report"]).read_text(encoding="utf-8")
    assert [entry["new"]["novelist"] for entry in summary["iterations"][:1]] == [0]


def test_a_model_that_is_back_writes_again_where_no_vote_has_been_cast(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    plms = [GOOD, {"name": "novelist", "connector": "ngram", "model": "stories"}]
    first = pipeline.run(plms=plms, method=ENOUGH, **CONTINUE)
    before = pipeline.releases(first["run_id"])
    (tmp_path / "back").touch()
    again = pipeline.run(plms=plms, method=ENOUGH, **CONTINUE)
    assert again["run_id"] == first["run_id"]
    assert pipeline.releases(first["run_id"]) == before, "what was voted on stays as it was"
    assert again["n_synthetic"] == 144


def test_a_run_whose_other_models_write_too_little_for_a_vote_stops_and_goes_on_later(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    stopped = pipeline.call("run", "wasp", "--config", str(pipeline.config(**CONTINUE)), code=1)
    assert "'login_problem' has 2 of 4 (clerk: 2 usable, novelist: no answers)" in stopped.stderr
    assert (
        "novelist is down: novelist: the key is not valid. Nothing was released" in stopped.stderr
    )
    (tmp_path / "back").touch()
    assert pipeline.run()["n_synthetic"] == 72


@pytest.mark.parametrize(("missing", "degraded"), [(1, False), (2, True)])
def test_a_run_without_one_text_in_a_hundred_is_whole(
    api: str, tmp_path: Path, missing: int, degraded: bool
) -> None:
    code = f"""
import connectors.models.ngram.model as m
from connectors.interfaces.models import Completion
whole = m.NgramModel.complete
left = [{ENOUGH["samples"] - missing}]
def complete(self, prompts, *rest):
    number = min(left[0], len(prompts))
    left[0] -= number
    others = [Completion('', 'exhausted')] * (len(prompts) - number)
    return whole(self, prompts[:number], *rest) + others
m.NgramModel.complete = complete
"""
    pipeline = Pipeline(tmp_path / "home", api).patched(code)
    summary = pipeline.run(plms=[GOOD], method=ENOUGH)
    assert summary["n_synthetic"] == ENOUGH["samples"] - missing
    message = f"{missing} of 144 texts missing: the models gave no more valid ones"
    assert (summary["degraded"], summary["is_incomplete"]) == (degraded, degraded)
    assert (message in summary["problems"], message in summary["warnings"]) == (
        degraded,
        not degraded,
    )
    last = call_api(api, f"/flow_runs/{summary['prefect_run_id']}")
    assert (last["state_name"] == "Degraded") is degraded
