"""A dataset that passes 80 % of its cap is told to Prefect once per run, with public numbers alone."""

import json
import time
import urllib.request
from typing import Any

import pytest

from tests.support.runs.pipeline import Pipeline, last_json


def events(api: str, dataset: str) -> list[dict[str, Any]]:
    what = {"filter": {"event": {"name": ["wasp.budget.high"]}, "resource": {"id": [f"wasp.dataset.{dataset}"]}}}
    request = urllib.request.Request(
        f"{api}/events/filter", json.dumps(what).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["events"]


def wait_for_events(api: str, dataset: str, count: int) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 30
    while len(found := events(api, dataset)) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    return found


@pytest.mark.slow
def test_the_event_comes_once_after_the_release_that_passes_the_mark(api: str, pipeline: Pipeline) -> None:
    pipeline.call("budget", "cap", "spent-desk", "--epsilon", "5", "--declare")
    small = {"private": {"name": "spent-desk"}, "privacy": {"epsilon": 2.0}}
    pipeline.run(**small)
    assert events(api, "spent-desk") == []

    more = small | {"privacy": {"epsilon": 4.2}, "execution": {"seed": 1}}
    summary = pipeline.run(**more)
    found = wait_for_events(api, "spent-desk", 1)
    told = found[0]["payload"]
    status = last_json(pipeline.call("budget", "show", "spent-desk", "--json").stdout)["datasets"][0]
    assert told["cap"] == 5.0
    assert 4.0 <= told["spent"] <= round(status["spent"], 4)
    assert told["percent"] == round(100 * told["spent"] / 5)
    assert set(told) == {"dataset", "spent", "cap", "left", "percent", "run_id", "flow_run"}
    assert (told["run_id"], told["flow_run"]) == (summary["run_id"], summary["prefect_run_id"])

    pipeline.run(**more)  # reads everything back
    time.sleep(3)
    assert len(events(api, "spent-desk")) == len(found)
