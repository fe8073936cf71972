"""A step whose code changed must say whether its meaning changed: cached artifacts depend on it."""

import json

from tasks.steps.reuse import VERSIONS
from tests.support.paths import ROOT
from tests.support.step_versions import MEANING, RECORD, code, present


def test_every_step_has_its_meaning_written_down() -> None:
    assert set(MEANING) == set(VERSIONS)
    assert all((ROOT / name).exists() for files in MEANING.values() for name in files)


def test_no_step_changed_without_a_decision_about_its_version() -> None:
    recorded, now = json.loads(RECORD.read_text(encoding="utf-8")), present()
    changed = [step for step in now if now[step]["code"] != recorded.get(step, {}).get("code")]
    assert not changed, (
        f"The code of {changed} changed. If results change, raise the number in tasks/steps/reuse.py; either way record "
        "the decision with: python -m tests.support.step_versions"
    )
    assert {step: entry["version"] for step, entry in now.items()} == VERSIONS


def test_a_move_changes_no_meaning() -> None:
    before = (
        "from tasks.selection import weights\nfrom tasks.first import clean_texts\nx = weights.weigh(clean_texts(y))"
    )
    after = "from tasks.other import clean_texts\nfrom tasks.new.name import weigh\nx = weigh(clean_texts(y))"
    assert code(before) == code(after)
    assert code(before) != code(before.replace("(y)", "(z)"))
    assert code("import os\nx = os.path") != code("import os\nx = path"), "names of libraries count"
