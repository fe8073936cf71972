"""The decision of `guidance: auto`: by public numbers, before any private file is opened."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError
from flows.config.files import check_config
from flows.engine.plan import numbers_of, planned
from flows.engine.prepare import guarantee_of, prepare
from flows.methods.voting import promise_of
from flows.methods.wasp.calibration import calibrated, density_noise
from flows.methods.wasp.config import WaspConfig
from tasks.accounting.promise import Promise
from tests.support.runs.pipeline import SMALL, Pipeline, values

ONE = SMALL["plms"][0]
SMALLEST = {"name": "small", "connector": "hf", "model": "smollm2"}
PLAIN = "name: plain\nitem: note\n"
"""A task file without classes."""


def config(rows: int | None, epsilon: float = 4.0, **changes: Any) -> WaspConfig:
    private = {"path": "no_such_file.parquet", "name": "desk"} | (
        {} if rows is None else {"declared_rows": rows}
    )
    method = SMALL["method"] | {"guidance": "auto"} | changes.pop("method", {})
    arguments = values(private=private, method=method, privacy={"epsilon": epsilon}, **changes)
    return check_config(WaspConfig, arguments, "the test")


@pytest.mark.parametrize(
    ("rows", "epsilon", "task", "opens"),
    [
        (40, 4.0, "support_desk", False),
        (60, 4.0, "support_desk", True),
        (120, 4.0, "support_desk", True),
        (120, 1.0, "support_desk", False),
        (80, 4.0, "imdb", False),
        (100, 4.0, "imdb", True),
        (1, float("inf"), "support_desk", True),
    ],
)
def test_rows_epsilon_and_classes_decide_what_is_released(
    rows: int, epsilon: float, task: str, opens: bool
) -> None:
    made = config(rows, epsilon, task=task)
    assert made.uses_private_rows == opens
    assert len(guarantee_of(made).charges) == opens
    assert numbers_of(made)["epsilon_exact"] == (
        None if epsilon == float("inf") else pytest.approx(epsilon * opens, rel=1e-4)
    )


def test_auto_is_the_default_and_requests_the_number_of_rows() -> None:
    method = {name: value for name, value in SMALL["method"].items() if name != "guidance"}
    made = check_config(WaspConfig, SMALL | {"method": method}, "the test")
    assert made.method.guidance == "auto"
    with pytest.raises(ConfigError, match=r"private\.declared_rows: missing"):
        planned(made)


def test_declared_rows_change_no_noise() -> None:
    sigmas = {rows: guarantee_of(config(rows)).noise.sigma for rows in (60, 120, 1000)}
    assert len(set(sigmas.values())) == 1


def test_closed_rows_are_never_opened_and_no_dataset_enters_the_ledger(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    prepared = prepare("wasp", config(40), home)  # the private file does not exist
    assert prepared.tools.config.private is None
    assert prepared.requested_config.private is not None
    assert prepared.plan.charges == ()
    assert prepared.tools.run_name.dataset == ""
    assert prepared.tools.ledger.known("desk") is None
    plain = check_config(WaspConfig, values(private=None, method={"guidance": "auto"}), "the test")
    assert prepared.tools.run_id == prepare("wasp", plain, home).tools.run_id, (
        "closed rows leave no trace in the run"
    )
    with pytest.raises(ConfigError, match="no_such_file"):
        prepare("wasp", config(120), home)


@pytest.mark.parametrize(
    "setting", [{"contrast": False}, {"weighting": False}, {"weights_by": "softmax"}]
)
def test_a_setting_of_guidance_without_effect_is_refused(setting: dict[str, Any]) -> None:
    assert config(120, method=setting).uses_private_rows, "the setting takes effect"
    closed = config(40, method=setting)
    for idle in (closed.model_copy(update={"private": None}), closed):
        with pytest.raises(
            ConfigError, match="has no effect, because no private row guides the texts"
        ):
            planned(idle)


@pytest.mark.runs
def test_a_run_with_closed_rows_ends_without_a_charge_or_a_private_file(
    api: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(tmp_path / "home", api)
    private = {"path": str(tmp_path / "missing.parquet"), "name": "desk", "declared_rows": 40}
    summary = pipeline.run(method={"guidance": "auto"}, private=private)
    assert summary["epsilon_spent"] == 0
    assert summary["dataset"] is None or summary["dataset"] == ""
    assert summary["n_synthetic"] == 72
    assert not pipeline.answer("budget", "show")["datasets"]
    manifest = json.loads(
        (pipeline.home / "runs" / summary["run_id"] / "manifest.json").read_text()
    )
    assert manifest["config"]["private"]["declared_rows"] == 40
    assert "the private rows stay closed" in json.dumps(manifest["plan"])
    page = Path(summary["report"]).read_text()
    assert "No private record was opened: epsilon is 0." in page
    assert "the private rows stay closed, no budget is used" in page
    assert "keep your budget" in page
    pipeline.answer("resume", summary["run_id"])


@pytest.mark.runs
def test_any_flow_offers_soft_and_hard_labels_without_private_rows(
    whole_run: tuple[Pipeline, dict[str, Any]], tmp_path: Path
) -> None:
    pipeline = whole_run[0].copied(tmp_path / "home")
    plain = pipeline.synthetic(whole_run[1]["run_id"])
    assert "label_soft" not in plain
    hard = pipeline.run(text_labels="hard")
    table = pipeline.synthetic(hard["run_id"])
    best = pd.DataFrame(table["label_soft"].tolist()).idxmax(axis=1)
    assert table["label"].nunique() > 1
    names = sorted(set(plain["label"]))
    assert table.groupby(best)["label"].nunique().max() == 1
    assert set(table["label"]) <= set(names)


@pytest.mark.parametrize(
    ("method", "stated", "joined"),
    [
        ({}, None, "mean"),
        ({"guidance": "kernel"}, None, "mean"),
        ({"guidance": "votes"}, None, "max"),
        ({"guidance": "votes"}, "sum", "sum"),
    ],
)
def test_the_records_of_a_person_are_joined_as_the_release_needs(
    method: dict[str, Any], stated: str | None, joined: str
) -> None:
    privacy = {"epsilon": 4.0, "protects": "person", "rows_per_person": 3, "joined_by": stated}
    private = {"path": "rows.csv", "person": "who", "declared_rows": 500}
    arguments = values(
        private=private, method=SMALL["method"] | {"guidance": "auto"} | method, privacy=privacy
    )
    assert promise_of(check_config(WaspConfig, arguments, "the test")).aggregation == joined
    with pytest.raises(ConfigError, match="averages a person's rows. Write mean"):
        check_config(
            WaspConfig,
            arguments | {"method": {"guidance": "auto"}, "privacy": privacy | {"joined_by": "max"}},
            "x",
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": {"guidance": "votes", "examples": 0}}, "guide as examples alone"),
        ({"method": {"examples": 1}}, "cannot be half good and half bad"),
        ({"method": {"examples": 0, "contrast": False}}, "contrast: false has no effect"),
        ({"method": {"guidance": "kernel", "examples": 0, "weighting": False}}, "without effect"),
        ({"method": {"examples": 0}, "text_labels": "written", "plms": [ONE]}, "without effect"),
        ({"method": {"examples": 0}, "task": "plain.yaml", "plms": [ONE]}, "without effect"),
        ({"method": {"examples": 0}, "plms": [ONE]}, ""),
        ({"method": {"guidance": "kernel", "examples": 0}}, ""),
        ({"method": {"guidance": "kernel", "examples": 0}, "text_labels": "soft", "plms": [ONE]}, ""),
    ],
)  # fmt: skip
def test_examples_are_left_out_only_where_the_release_has_another_effect(
    changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.yaml").write_text(PLAIN, encoding="utf-8")
    if not message:
        assert guarantee_of(config(300, **changes)).charges
        return
    with pytest.raises(ConfigError, match=message):
        guarantee_of(config(300, **changes))


@pytest.mark.parametrize(
    ("changes", "stated"),
    [
        ({"plms": [SMALLEST]}, True),
        ({"plms": [SMALLEST], "method": {"examples": 0}}, False),
        ({"plms": [SMALLEST, ONE]}, False),
        ({"plms": [SMALLEST], "text_labels": "written"}, False),
        ({"plms": [SMALLEST], "text_labels": "soft", "task": "plain.yaml"}, False),
        ({"plms": [SMALLEST], "method": {"guidance": "votes"}}, False),
    ],
)
def test_a_plan_says_where_examples_make_texts_worse(
    changes: dict[str, Any], stated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.yaml").write_text(PLAIN, encoding="utf-8")
    (release,) = guarantee_of(config(300, **changes)).releases
    assert any("method.examples: 0 is better here" in line for line in release.plan()) == stated


def test_a_density_that_no_proof_covers_is_refused() -> None:
    with pytest.raises(ConfigError, match="joined_by: 'max' is not allowed"):
        density_noise(Promise(4.0, 1e-5, protects="person", rows_per_person=3, aggregation="max"))
    made = config(300)
    paper = made.model_copy(
        update={"privacy": made.privacy.model_copy(update={"calibration": "paper"})}
    )
    with pytest.raises(ConfigError, match="calibration: 'paper' is not allowed"):
        calibrated(paper)
