"""A step whose code changed must say whether its meaning changed: cached artifacts depend on it."""

import json

import pytest
import yaml

from tasks.steps.reuse import all_versions, declare_versions, declaring_modules
from tests.support.paths import ROOT
from tests.support.step_versions import FURTHER, MEANING, RECORD, code, present


def test_every_kind_of_key_has_its_meaning_written_down() -> None:
    assert set(MEANING) == set(all_versions()) >= set(yaml.safe_load(FURTHER))
    assert all((ROOT / name).exists() for files in MEANING.values() for name in files)


def test_no_step_changed_without_a_decision_about_its_version() -> None:
    recorded, now = json.loads(RECORD.read_text(encoding="utf-8")), present()
    changed = [step for step in now if now[step]["code"] != recorded.get(step, {}).get("code")]
    assert not changed, (
        f"The code of {changed} changed. If results change, raise the version where the key is declared; either way "
        "record the decision with: python -m tests.support.step_versions"
    )
    assert {step: entry["version"] for step, entry in now.items()} == all_versions()


def test_a_kind_of_key_is_declared_by_one_module() -> None:
    owner = declaring_modules()["vote"]
    with pytest.raises(ValueError, match=f"'vote' are declared in {owner} and in elsewhere"):
        declare_versions("elsewhere", {"vote": 7})
    assert all_versions()["vote"] == 1


def test_a_move_changes_no_meaning() -> None:
    before = (
        "from tasks.guidance import weights\nfrom tasks.first import clean_texts\n"
        "x = weights.weigh(clean_texts(y))"
    )
    after = "from tasks.other import clean_texts\nfrom tasks.new.name import weigh\nx = weigh(clean_texts(y))"
    assert code(before) == code(after)
    assert code(before) != code(before.replace("(y)", "(z)"))
    assert code("import os\nx = os.path") != code("import os\nx = path"), "names of libraries count"
