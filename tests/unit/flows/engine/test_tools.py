"""Use of the configured language models by a run and a preview."""

import itertools
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from flows.cli import start
from flows.config.files import check_config
from flows.engine.preview import preview_rows
from flows.engine.tools import RunName, RunTools
from flows.methods.wasp.config import WaspConfig
from tasks.reporting import terminal as words
from tests.support.paths import ROOT
from tests.support.runs.pipeline import SMALL
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import ok

GERMAN = {
    "lob": "Der Film war von Anfang bis Ende spannend, und die Schauspieler haben mir sehr gut gefallen.",
    "tadel": "Das war der langweiligste Abend seit Jahren, und wir sind nach einer Stunde nach Hause gegangen.",
}


def test_a_model_is_opened_once_although_the_run_gets_its_name_later(tmp_path: Path) -> None:
    tools = RunTools(check_config(WaspConfig, SMALL, "the test"), tmp_path)
    first = tools.model("clerk")
    named = tools.named(RunName("a-run", "wasp", "desk", "f" * 64)).model("clerk")
    assert named is not first
    assert (first.scope, named.scope) == ("preview", "a-run")
    assert named.inner is first.inner


def test_a_preview_judges_texts_in_the_language_of_the_task(tmp_path: Path) -> None:
    answers = tmp_path / "answers.parquet"
    pd.DataFrame({"text": list(GERMAN.values()), "label": list(GERMAN)}).to_parquet(answers)
    task = tmp_path / "kritiken.yaml"
    task.write_text(
        yaml.safe_dump(
            {"name": "kritiken", "item": "Filmkritik", "labels": list(GERMAN), "language": "de"}
        )
    )
    plms = [{"name": "recorded", "connector": "recorded", "model": str(answers)}]
    config = check_config(WaspConfig, SMALL | {"task": str(task), "plms": plms}, "the test")
    shown = preview_rows(config, tmp_path / "home", 1)["rows"]
    assert {row["text"] for row in shown} == set(GERMAN.values())
    assert [row["reason"] for row in shown] == [None, None]


def test_a_preview_marks_answers_that_are_not_one_whole_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (
        ('{"note": "I cannot log in since', "length"),
        (
            "- I cannot log in to my account since Monday.\n- My card was lost in the old town.",
            "stop",
        ),
        ("I cannot log in since", "length"),
        ("I cannot log in at all since Monday morning.", "stop"),
    )
    turn = itertools.cycle(answers)
    monkeypatch.setenv("VENDOR_KEY", "k")
    with VendorServer(plan=lambda request: ok(request, *next(turn))) as server:
        values = SMALL | {"plms": [server.plm(concurrency=1)]}
        shown = preview_rows(check_config(WaspConfig, values, "the test"), tmp_path / "home", 2)
    marks = Counter(row["reason"] or ", ".join(row["remarks"]) for row in shown["rows"])
    number = len(shown["rows"]) // 4
    assert marks == dict.fromkeys(
        ("format", "first of several texts", "ends in the middle", ""), number
    )
    assert shown["findings"] == [
        f"gpt: {number} of {3 * number} texts end in the middle of a sentence",
        f"gpt: {number} of {4 * number} answers were left out ({number} format)",
        f"gpt: {number} of {4 * number} answers contained several texts; the first was used",
    ]
    printed = words.preview(shown)
    assert all(finding in printed for finding in shown["findings"])
    assert "since  [ends in the middle]" in printed


def test_a_preview_needs_models_but_no_private_rows(home: Path) -> None:
    location = ROOT / "deployments/configs"
    shown = start.preview("fusegen", location / "fusegen_here.yaml", ["plms_used=[smollm2]"], 1)
    assert {row["plm"] for row in shown["rows"]} == {"smollm2"}
    with pytest.raises(ConfigError, match="calls no language model"):
        start.preview("only_private", location / "only_private_here.yaml", [], 1)
