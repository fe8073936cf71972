"""A dataset that passes 80 % of its cap is told to Prefect once per run, with public numbers alone."""

import time
from typing import Any

import pytest

from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import ask
from tests.support.waits import wait_until


def events(api: str, dataset: str) -> list[dict[str, Any]]:
    what = {"event": {"name": ["wasp.budget.high"]}, "resource": {"id": [f"wasp.dataset.{dataset}"]}}
    return list(ask(api, "/events/filter", {"filter": what})["events"])


@pytest.mark.slow
def test_the_event_comes_once_after_the_release_that_passes_the_mark(api: str, pipeline: Pipeline) -> None:
    pipeline.call("budget", "cap", "spent-desk", "--epsilon", "5", "--declare")
    small = {"private": {"name": "spent-desk"}, "privacy": {"epsilon": 2.0}}
    pipeline.run(**small)
    assert events(api, "spent-desk") == []

    more = small | {"privacy": {"epsilon": 4.2}, "execution": {"seed": 1}}
    summary = pipeline.run(**more)
    found = wait_until(lambda: events(api, "spent-desk"), every=0.5)
    told = found[0]["payload"]
    status = pipeline.answer("budget", "show", "spent-desk")["datasets"][0]
    assert told["cap"] == 5.0
    assert 4.0 <= told["spent"] <= round(status["spent"], 4)
    assert told["percent"] == round(100 * told["spent"] / 5)
    assert set(told) == {"dataset", "spent", "cap", "left", "percent", "run_id", "flow_run"}
    assert (told["run_id"], told["flow_run"]) == (summary["run_id"], summary["prefect_run_id"])

    pipeline.run(**more)  # reads everything back
    time.sleep(3)
    assert len(events(api, "spent-desk")) == len(found)
