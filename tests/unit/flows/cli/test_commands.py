"""The manifests of runs, as the commands read them."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import ArtifactError, BudgetError, ConfigError
from connectors.interfaces.ledger import BudgetPlan, ReleaseRequest
from connectors.models.base.completion_store import Lengths
from flows.cli import budget, start, stored_runs
from flows.config.files import check_config, load_config
from flows.config.task_files import load_task
from flows.engine.plan import plan_of
from flows.engine.prepare import guarantee_of
from flows.methods.wasp.config import WaspConfig
from flows.runtime.stores import open_ledger
from tasks.reporting import terminal
from tests.support.runs.pipeline import SMALL
from tests.support.servers.ports import free_port

AUTO = SMALL | {"method": SMALL["method"] | {"guidance": "auto"}}


def test_one_damaged_manifest_does_not_hide_the_other_runs(home: Path) -> None:
    contents = {
        "whole": '{"run_id": "whole", "state": "done"}',
        "broken": "{",
        "unnamed": '{"state": "failed"}',
    }
    for name, content in contents.items():
        (home / "runs" / name).mkdir(parents=True)
        (home / "runs" / name / "manifest.json").write_text(content)
    states = {run["run_id"]: run["state"] for run in stored_runs.runs()["runs"]}
    assert states == {"whole": "done", "broken": "damaged", "unnamed": "failed"}
    with pytest.raises(ArtifactError, match=r"broken/manifest\.json is damaged"):
        stored_runs.show("broken")


def test_a_plan_shows_cap_and_rest_and_ends_with_code_3_if_the_cap_refuses(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("text,label\na text,login_problem\n")
    (tmp_path / "rows.csv").chmod(0o600)
    private = {"path": str(tmp_path / "rows.csv"), "name": "desk", "declared_rows": 120}
    (tmp_path / "small.yaml").write_text(json.dumps(AUTO | {"private": private}))
    show = partial(start.plan, "wasp", tmp_path / "small.yaml", [])
    plan = show()
    assert "budget        8 of 8 left; this run adds 4\n" in plan.to_text(plan)

    ledger = open_ledger(home)
    ledger.register("desk", "f" * 64, ["a"])
    ledger.set_cap("desk", 3.0, 1e-5, "owner", "agreed")
    plan = show()
    assert plan.exit_code == BudgetError.exit_code == 3
    assert (
        "3 of 3 left; this run adds 4. The cap leaves epsilon 3, so the run will be refused"
        in plan.to_text(plan)
    )
    levels = start.advise(config=tmp_path / "small.yaml", range_=True)
    caps = re.findall(r"^ +(\d) .* 3 of 3 left(, refused)?$", levels.to_text(levels), re.MULTILINE)
    assert caps == [("2", ""), ("4", ", refused"), ("8", ", refused")]
    assert "Dataset 'desk': needs epsilon 4" in "".join(plan.problems)

    ledger.set_cap("desk", 4.0, 1e-5, "owner", "agreed")
    config = load_config(WaspConfig, tmp_path / "small.yaml", [])
    charges = guarantee_of(config).charges
    ledger.reserve("desk", BudgetPlan("earlier", "wasp", 1e-5, charges), "me")
    ledger.release_once(
        ReleaseRequest("desk", "earlier", "guidance", "key", charges[0]), lambda: b"noise"
    )
    ledger.finish("desk", "earlier")
    plan = show()
    assert (
        "of 4 left; this run adds 4, or 0 if it repeats a run exactly. The cap leaves"
        in plan.to_text(plan)
    )
    assert plan.exit_code == 3, "a run of another id is refused, whatever its releases cost"
    (refusal,) = plan.problems
    assert (
        "missing 1.992 (the total would be 5.992: epsilons of several releases do not simply add up)"
        in refusal
    )

    folder = home / "runs" / "earlier"
    folder.mkdir(parents=True)
    stored = {
        "run_id": "earlier",
        "flow": "wasp",
        "state": "failed",
        "started": "2026-01-01T00:00:00+00:00",
    }
    (folder / "manifest.json").write_text(
        json.dumps(stored | {"config": config.model_dump(mode="json")})
    )
    plan = show()
    assert plan.exit_code == 0
    assert (
        "adds 0 beyond what run earlier has reserved or released, if its records and mod"
        in plan.to_text(plan)
    )
    assert start.plan("wasp", tmp_path / "small.yaml", ["execution.seed=2"]).exit_code == 3
    ledger.set_cap("desk", 8.0, 1e-5, "owner", "agreed")
    ledger.reserve("desk", BudgetPlan("second", "wasp", 1e-5, charges), "me")
    text = budget.show("desk").to_text(budget.show("desk"))
    assert "desk: epsilons do not add up. Spent 4 and reserved 4 together cost 5.992" in text


def test_the_forecast_of_a_plan_uses_what_an_earlier_run_of_the_task_measured(
    home: Path, tmp_path: Path
) -> None:
    private = {"path": str(tmp_path / "rows.csv"), "declared_rows": 120}
    (tmp_path / "small.yaml").write_text(json.dumps(AUTO | {"private": private}))
    config = load_config(WaspConfig, tmp_path / "small.yaml", [])
    folder = home / "runs" / "before"
    folder.mkdir(parents=True)
    stored = {
        "run_id": "before",
        "flow": "wasp",
        "state": "done",
        "started": "2026-01-01T00:00:00+00:00",
    }
    (folder / "manifest.json").write_text(
        json.dumps(stored | {"config": config.model_dump(mode="json")})
    )
    with pytest.raises(
        ConfigError, match="Run before has no classifier yet. Finish it with: wasp resume before"
    ):
        stored_runs.predict("before", ["a text"])
    summary = {
        "n_synthetic": 72,
        "seconds": 9.0,
        "iterations": [{"probe_accuracy": 0.8}, {"probe_accuracy": 0.9}],
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    assert "accuracy of texts alone, 80.0 %" in "\n".join(
        start.plan("wasp", tmp_path / "small.yaml", [])["lines"]
    )
    other = start.plan("wasp", tmp_path / "small.yaml", ["embedder.options.dimension=64"])
    assert "depends on how good the texts already are" in "\n".join(other["lines"])


def test_a_plan_warns_of_an_endpoint_that_refuses_without_a_wait(
    home: Path, tmp_path: Path
) -> None:
    port = free_port()
    model = {
        "name": "own",
        "connector": "openai",
        "model": "m",
        "endpoint": f"http://127.0.0.1:{port}/v1",
    }
    private = {"path": str(tmp_path / "rows.csv"), "declared_rows": 120}
    plms = [model | {"key": "none", "price": {"input": 0, "output": 0}}]
    (tmp_path / "small.yaml").write_text(json.dumps(AUTO | {"private": private, "plms": plms}))
    plan = start.plan("wasp", tmp_path / "small.yaml", [])
    warning = f"model 'own': 127.0.0.1:{port} refuses connections. Start its server before the run"
    assert plan["warnings"].count(warning) == 1
    assert warning not in plan.problems


def test_a_speed_that_is_not_known_is_not_planned_as_zero() -> None:
    made = check_config(WaspConfig, SMALL, "the test")
    batch = dict.fromkeys(("clerk", "novelist"), Lengths(16, 50.0, 20.0, 0.0, 200.0))
    planned = plan_of(made, load_task(made.task), guarantee_of(made), batch)
    assert planned["minutes_of_writing"] is None
    assert planned["measured"] == ["clerk", "novelist"]


@pytest.mark.parametrize(
    ("texts", "options", "requests"),
    [
        (1, {}, 1.0),
        (4, {}, 1 / 4),
        (8, {}, 1 / 8),
        (16, {}, 2 / 16),
        (4, {"extra": {"n": 2}}, 1.0),
        (4, {"tries": 1}, 1.0),
    ],
)
def test_a_prompt_of_several_texts_is_planned_once_at_a_paid_model(
    texts: int, options: dict[str, Any], requests: float
) -> None:
    paid = {
        "name": "gpt",
        "connector": "openai",
        "model": "m",
        "key": "none",
        "price": {"input": 100.0, "output": 0.0},
        "options": options,
    }
    plans = [
        plan_of(made, load_task(made.task), guarantee_of(made))
        for number in (1, texts)
        for made in [
            check_config(
                WaspConfig,
                SMALL | {"plms": [paid], "method": SMALL["method"] | {"texts_per_prompt": number}},
                "the test",
            )
        ]
    ]
    single, shared = plans
    assert "shared_prompts" not in single
    assert shared["tokens_in"] == pytest.approx(single["tokens_in"] * requests, abs=1)
    assert shared["dollars_about"] == pytest.approx(single["dollars_about"] * requests)
    if requests == 1:
        assert "shared_prompts" not in shared
        return
    saved = shared["shared_prompts"]
    assert saved["tokens_in"] == pytest.approx(single["tokens_in"] - shared["tokens_in"], abs=2)
    assert saved["dollars"] == pytest.approx(single["dollars_about"] - shared["dollars_about"])
    line = f"saved         about {saved['tokens_in']} tokens in"
    assert line in terminal.plan(shared | {"warnings": [], "budget": None, "opening": None})


def test_texts_of_one_prompt_save_nothing_at_a_model_of_this_machine() -> None:
    method = SMALL["method"] | {"texts_per_prompt": 4}
    made = check_config(WaspConfig, SMALL | {"method": method}, "the test")
    assert "shared_prompts" not in plan_of(made, load_task(made.task), guarantee_of(made))


def test_planned_tokens_do_not_depend_on_the_examples_in_stored_prompts() -> None:
    made = check_config(WaspConfig, SMALL, "the test")
    card = load_task(made.task)
    bare, long = Lengths(9, 50.0, 20.0, 1.0, 200.0), Lengths(9, 500.0, 20.0, 1.0, 2000.0)
    planned = [
        plan_of(made, card, guarantee_of(made), dict.fromkeys(("clerk", "novelist"), lengths))
        for lengths in (bare, long)
    ]
    assert (
        planned[0]["tokens_in"]
        == planned[1]["tokens_in"]
        == plan_of(made, card, guarantee_of(made))["tokens_in"]
    )


def test_the_doctor_of_a_comparison_names_the_command_that_checks_it() -> None:
    with pytest.raises(ConfigError, match=r"wasp compare 'papers/wasp#table_1' --plan$"):
        start.doctor("papers/wasp#table_1")
