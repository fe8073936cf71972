"""A metric is one registered value: everything that shows metrics reads it from there."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import Usage
from flows.compare.config import CompareConfig
from flows.config.files import check_config
from tasks.metrics import registry
from tasks.metrics.registry import (
    METRICS,
    LabelledRows,
    Metric,
    MetricInput,
    added_versions,
    all_metrics,
    find_metric,
)
from tasks.metrics.usefulness import ACCURACIES
from tasks.reporting.report import render
from tasks.reporting.run_summary import (
    RunSummary,
    check_metric_names,
    metrics_of,
    summary_line,
)
from tasks.reporting.text import number
from tests.support.data.reports import made_up_report, one_iteration

LENGTH = Metric(
    name="mean_length",
    title="Mean number of words",
    label="mean length",
    note="Mean length: words per text",
    higher_is_better=False,
    measure=lambda rows: float(np.mean([len(text.split()) for text in rows.texts.texts])),
)


COMPARED: dict[str, Any] = {
    "title": "T",
    "rows": [{"name": "r", "config": "c.yaml"}],
    "metrics": ["mean_length"],
}


def install(monkeypatch: pytest.MonkeyPatch, **changes: str) -> Metric:
    """Let a package with the metric be installed."""
    metric = replace(LENGTH, **changes)
    monkeypatch.setattr(registry, "_installed", lambda: (metric,))
    return metric


def rows(texts: list[str]) -> MetricInput:
    vectors = np.zeros((len(texts), 2), dtype=np.float32)
    return MetricInput(
        LabelledRows(texts, ["a"] * len(texts), vectors), LabelledRows((), (), vectors[:0]), 0
    )


FIRST = (
    "fid fid_equal mmd text_precision text_recall probe_accuracy accuracy macro_f1 next_word_loss"
)
SINCE: tuple[str, ...] = ()
"""Metrics that were added since. Each changes keys: stored runs are measured again when they are resumed, and the cells
of comparisons are computed again."""


def test_the_metrics_are_these_and_only_later_ones_are_part_of_keys() -> None:
    series = ("weighted_", "discriminator_", *(set(ACCURACIES) - {"accuracy"}))
    others = [metric for metric in METRICS if not metric.name.startswith(series)]
    names = [metric.name for metric in others if not metric.unnoised]
    assert names == [*FIRST.split(), *SINCE]
    assert set(added_versions()) == set(SINCE)


def test_the_name_and_the_title_of_a_figure_without_noise_say_so() -> None:
    unnoised = [metric for metric in METRICS if metric.unnoised]
    assert len(unnoised) == 3
    for metric in METRICS:
        assert metric.name.endswith("_not_private") == metric.unnoised
        assert metric.title.endswith(", NOT PRIVATE") == metric.unnoised


def test_an_added_metric_is_measured_tracked_reported_and_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="mean_length"):
        check_config(CompareConfig, COMPARED, "a test without it")
    added = install(monkeypatch)
    assert added.measure(rows(["one two", "one two three four"])) == 3.0
    assert added_versions()["mean_length"] == 1, "its artifacts have another key"
    facts = one_iteration(0, guided={"mean_length": 3.0})
    assert facts.metrics()["texts/mean_length"] == 3.0
    report = made_up_report(iterations=(facts, one_iteration(1, guided={"mean_length": 4.5})))
    assert metrics_of(report)["mean_length"] == 4.5
    assert [summary_line(facts)["mean_length"] for facts in report.iterations] == [3.0, 4.5]
    page = render(report)
    assert '<th scope="col">mean length</th>' in page
    assert "Mean length: words per text" in page
    cells = [re.sub(r"\s", "", cell) for cell in re.findall("<td>(.*?)</td>", page, re.S)]
    assert {number(3.0), number(4.5)} <= set(cells)
    assert find_metric("mean_length").heading() == "Mean number of words (lower is better)"
    assert check_config(CompareConfig, COMPARED, "a test").metrics == ["mean_length"]
    form = CompareConfig.model_json_schema()["properties"]["metrics"]["items"]
    assert form["enum"][-1] == "mean_length"


@pytest.mark.parametrize("name", ["fid", "Mean length"])
def test_a_name_that_exists_or_is_no_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    install(monkeypatch, name=name)
    with pytest.raises(ConfigError, match=name):
        all_metrics()


@pytest.mark.parametrize("name", ["run_id", "weights", "samples", "epsilon_spent"])
def test_a_name_of_another_value_stops_a_run_before_it_spends(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    install(monkeypatch, name=name)
    with pytest.raises(ConfigError, match=name):
        check_metric_names()


def test_the_summary_is_the_same_after_reading_and_early_ones_open() -> None:
    values = RunSummary(
        run_id="r", dataset="desk", metrics={"accuracy": 0.5, "gone": None}
    ).to_json()
    assert (values["accuracy"], values["gone"]) == (0.5, None)
    assert "metrics" not in values
    assert "removed" not in values
    assert RunSummary.from_json(values).to_json() == values
    early = RunSummary.from_json({"run_id": "r", "state": "done", "accuracy": 0.7, "note": "text"})
    assert (early.metrics["accuracy"], early.releases_charged, early.usefulness_warnings) == (
        0.7,
        None,
        [],
    )
    assert early.metrics == {"accuracy": 0.7}
    for exact in ({"fid_not_private": True}, {"unnoised": ["fid"]}):
        rows = [{"fid": 0.4, "not_private": True}, {"fid": 0.5, "not_private": False}]
        without = RunSummary.from_json(
            {"run_id": "r", "fid": 0.4, "accuracy": 0.7, "iterations": rows} | exact
        )
        assert without.metrics == {"accuracy": 0.7}, "a FID against private rows is no longer shown"
        assert [row["fid"] for row in without.iterations] == [None, 0.5]
    assert RunSummary.from_json({"run_id": "r", "fid": 0.4, "fid_not_private": False}).metrics == {
        "fid": 0.4
    }


def test_tracked_numbers_have_a_group_and_costs_and_failures_of_zero_are_left_out() -> None:
    plain = one_iteration(
        0, usage={"gpt-4o": Usage(40, 9000, 5200, 0.0)}, shortfall={"gpt-4o": 0}
    ).metrics()
    groups = {name.partition("/")[0] for name in plain}
    assert groups == {"privacy", "texts", "weight", "new", "left_out_duplicate", "left_out_refused"}
    assert plain["texts/probe_accuracy"] == pytest.approx(0.52)
    assert "texts/accuracy" not in plain, "accuracy is the student's alone"
    costly = one_iteration(
        0, usage={"gpt-4o": Usage(40, 9000, 5200, 0.5)}, down={"claude": "dead"}
    ).metrics()
    assert (costly["dollars/gpt-4o"], costly["down/claude"]) == (0.5, 1.0)
    assert "down/gpt-4o" not in costly
