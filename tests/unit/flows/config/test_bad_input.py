"""Bad input gets one clear error, before anything is spent: what is wrong, where, and what to do."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.interfaces.errors import (
    ArtifactError,
    ConfigError,
    InputError,
    LedgerError,
    WaspError,
)
from flows.catalog import find_flow
from flows.cli.start import plan
from flows.compare.config import CompareConfig
from flows.config import files
from flows.config.environment import environment, unknown_variables
from flows.config.files import check_config, load_config, read_stored, with_changes
from flows.config.models import listed_prices
from flows.config.paths import default_name
from flows.config.removed import REMOVED_VALUES, removed_fields, without_removed
from flows.config.task_files import load_task
from flows.config.yaml_files import parse_yaml
from flows.federation.party import PartyConfig
from flows.methods.wasp.config import WaspConfig
from flows.runtime import state_folder as home_module
from flows.runtime.state_folder import check_room, state_folder
from flows.runtime.stores import open_ledger
from flows.storage.retention import Retention
from tasks.reporting import terminal as words
from tests.support.runs.pipeline import SMALL, values, written
from tests.support.runs.prepared_run import good_rows, start, table

PLANTED = "zqxplanted quokka 7731"


def assert_nothing_spent(home: Path) -> None:
    book = open_ledger(home)
    for dataset in book.datasets():
        assert not [
            entry for entry in book.history(dataset) if entry.kind in ("reserve", "release")
        ]
    assert not (home / "runs").exists()


FIELDS = [
    pytest.param(flow, field, advice, id=f"{flow}-{field}")
    for flow, fields in removed_fields().items()
    for field, advice in fields.items()
    if not field.startswith(("plms.options.", "embedder.options."))  # their connectors refuse them
]


@pytest.mark.parametrize(("flow", "field", "advice"), FIELDS)
def test_a_removed_field_says_what_to_write(flow: str, field: str, advice: str) -> None:
    *groups, name = field.split(".")
    value: Any = {name: 1}
    for group in reversed(groups):
        value = {group: [value] if group in ("plms", "rows") else value}
    others = {"party": PartyConfig, "clean": Retention}
    model = others[flow] if flow in others else find_flow("wasp" if flow == "any" else flow).config
    with pytest.raises(ConfigError, match=rf"{field}: removed in 0\.3\. {advice[:6]}"):
        check_config(model, value, "run.yaml")


@pytest.mark.parametrize(("location", "value"), list(REMOVED_VALUES))
def test_a_removed_value_says_what_to_write(location: str, value: str) -> None:
    group, field = location.split(".")
    written = [{"name": "a", field: value}] if group == "plms" else {field: value}
    with pytest.raises(
        ConfigError,
        match=rf"{location}: '{value}' was removed in 0\.3\. {REMOVED_VALUES[location, value][:5]}",
    ):
        check_config(WaspConfig, values(**{group: written}), "run.yaml")


def test_a_run_of_an_earlier_version_opens_without_its_removed_fields() -> None:
    manifest = {
        "run_id": "old",
        "flow": "wasp",
        "config": values(method={"exam": 0.15, "guidance": "votes"}),
    }
    assert read_stored(WaspConfig, manifest).method.guidance == "votes"
    manifest["config"]["student"] = {"kind": "finetune", "adaptation": "coral"}
    assert read_stored(WaspConfig, manifest).student.adaptation == "none"


def test_a_removed_option_of_the_embedder_and_a_removed_age_of_a_schedule_say_what_to_write() -> (
    None
):
    with pytest.raises(
        ConfigError, match=r"embedder\.options\.normalize: removed in 0\.3\. Remove it"
    ):
        check_config(WaspConfig, values(embedder={"options": {"normalize": True}}), "run.yaml")
    with pytest.raises(
        ValueError, match=r"embeddings_older_than: removed in 0\.3\. Write intermediate_older_than"
    ):
        Retention.model_validate({"embeddings_older_than": "30d"})


def test_a_field_removed_of_one_flow_stays_that_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {
        "aug_pe": {"method.terms": "Remove it", "plms.price.date": "Remove it", "task": "Remove it"}
    }
    monkeypatch.setattr("flows.config.removed.removed_fields", lambda: {"any": {}} | here)
    plms = [{"name": "a", "price": {"input": 1, "date": "2026"}}]
    old = {"task": "desk", "method": {"terms": 5, "samples": 9}, "plms": plms}
    assert without_removed("dp_kps", old) == old
    assert without_removed("aug_pe", old) == {
        "method": {"samples": 9},
        "plms": [{"name": "a", "price": {"input": 1}}],
    }


def test_fewer_texts_than_models_and_classes_are_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"2 PLMs x 6 classes = 12"):
        start(home, method={"samples": 11})
    with pytest.raises(ConfigError, match=r"Raise method.samples to 36"):
        start(home, method={"samples": 24})
    with pytest.raises(
        ConfigError, match=r"6 candidates in the first vote are fewer than 2 per class"
    ):
        start(home, plms=SMALL["plms"][:1], method={"iterations": 2, "samples": 12})
    assert_nothing_spent(home)


def test_an_unknown_connector_lists_the_known_ones(home: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no connector 'recordet'. Did you mean 'recorded'\? Connectors: .*ngram"
    ):
        start(home, plms=[{"name": "a", "connector": "recordet"}])


def test_public_rows_that_are_private_ones_change_nothing_that_is_public(
    home: Path, tmp_path: Path
) -> None:
    path = table(tmp_path / "rows.parquet", good_rows("private"))
    copy = table(tmp_path / "copy.parquet", good_rows("private"))
    start(home, private={"path": path, "name": "both"}, public={"path": copy})
    assert len(read_problems(home, "both")) == 18


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("postgresql://user:hunter2@db.example/people", "db.example/people"),
        (
            "postgresql+psycopg2://user:p?w@hunter2@db.example/people?sslmode=require",
            "db.example/people",
        ),
        ("sqlite:///data/rows.db", "data/rows"),
        ("/data/train.csv", "data/train"),
        ("builtin:support_desk/private.parquet", "support_desk/private"),
    ],
)
def test_the_name_of_a_dataset_holds_no_password(path: str, name: str) -> None:
    assert default_name(path) == name


def test_a_lost_key_gives_known_rows_no_new_budget(home: Path, tmp_path: Path) -> None:
    path = table(tmp_path / "private.parquet", good_rows("private"))
    start(home, private={"path": path, "name": "first"})
    (home / "private" / "ledger.key").unlink()
    for name in ("first", "second"):
        with pytest.raises(LedgerError, match=r"Put back the file private/ledger\.key"):
            start(home, private={"path": path, "name": name})
    assert open_ledger(home).datasets() == ["first"]


@pytest.mark.parametrize("rows", [[("", "login_problem")], [("a text", "no_such_label")]])
def test_bad_test_rows_are_named_by_row_and_field(
    home: Path, tmp_path: Path, rows: list[tuple[str, str]]
) -> None:
    path = table(tmp_path / "test.parquet", good_rows("test") + rows)
    with pytest.raises(InputError, match=r"(?s)test\.parquet.*row 18"):
        start(home, test={"path": path, "rows": None})
    assert_nothing_spent(home)


LINE = '{"text": "words", "label": "login_problem"}\n'
ODD: dict[str, tuple[str | list[tuple[str, str]], int | None, str]] = {
    "line.csv": ("text,label\n" + "words,login_problem\n" * 17 + f"{PLANTED},x,y\n", 17, ""),
    "line.jsonl": (LINE * 18 + PLANTED, 18, ""),
    "null.jsonl": (LINE * 18 + '{"text": null, "label": "login_problem"}\n', 18, ""),
    "blank": ([*good_rows("private"), ("   ", "login_problem")], 18, "empty"),
    "label": ([*good_rows("private"), (PLANTED, "no_such_label")], 18, "label"),
    "a test row": ([*good_rows("private"), good_rows("test")[0]], 18, "test"),
    "no letters": (
        [*good_rows("private"), ("2024-05-01", "login_problem")],
        18,
        "the text has no letters",
    ),
    "no class": (
        [row for row in good_rows("private") if row[1] != "slow_internet"],
        None,
        "label 'slow_internet'",
    ),
    "one text": (
        good_rows("private") + good_rows("private")[:1] * 60,
        None,
        "one text is in 61 of 78 rows",
    ),
    "one row": (good_rows("private")[:1], None, "label 'slow_internet'"),
    "no rows": ([], None, "label 'slow_internet'"),
    "few rows": (good_rows("private"), None, "private.rows is 500, the source has 18 rows"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_private_rows_are_shown_to_their_owner_alone_and_change_no_plan(
    home: Path, tmp_path: Path, name: str
) -> None:
    rows, row, reason = ODD[name]
    test = {"path": table(tmp_path / "test.parquet", good_rows("test")), "rows": None}
    plans = []
    for content in (good_rows("private"), rows):
        path = tmp_path / (name if isinstance(content, str) else "private.parquet")
        path.write_text(content) if isinstance(content, str) else table(path, content)
        private = {"path": str(path), "name": "odd", "rows": 500 if name == "few rows" else None}
        prepared = start(home, private=private, test=test)
        plans.append(
            (
                prepared.plan.charges,
                prepared.plan.delta,
                prepared.guarantee.noise,
                prepared.warnings,
            )
        )
    assert plans[0] == plans[1]
    assert {entry.kind for entry in open_ledger(home).history("odd")} <= {
        "register",
        "version",
        "cap",
    }
    assert PLANTED not in f"{prepared.plan} {prepared.warnings}"
    assert (home / "private" / "problems" / "odd.json").stat().st_mode & 0o077 == 0
    problems = read_problems(home, "odd")
    assert {problem["row"] for problem in problems if "row" in problem} == ({row} if row else set())
    assert any(reason in problem["reason"] for problem in problems)


def read_problems(home: Path, name: str) -> list[dict[str, Any]]:
    """Return the problems that the owner of the rows is shown."""
    return list(
        json.loads((home / "private" / "problems" / f"{name}.json").read_text(encoding="utf-8"))[
            "problems"
        ]
    )


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (
            {"private": {"rows": 50, "of": 200}, "privacy": {"delta": 0.009}},
            "0.009 is not below 1/200",
        ),
        (
            {"private": {"rows": 115, "of": None}, "privacy": {"delta": 0.009}},
            "0.009 is not below 1/115",
        ),
        ({"private": {"rows": 50, "of": 200}, "privacy": {"delta": 0.0049}}, None),
        (
            {"privacy": {"delta": 0.009}},
            None,
        ),  # nothing is declared, and the true number is nobody's
        ({"private": {"rows": 50, "of": 100}, "privacy": {"epsilon": 0.1}}, "signal index"),
        ({"privacy": {"epsilon": "inf"}}, "NO NOISE"),
        ({"private": {"rows": 50}}, "makes a removal a replacement"),
    ],
)
def test_a_setting_with_a_cost_is_warned_of(
    home: Path, changes: dict[str, Any], warning: str | None
) -> None:
    warnings = start(home, **changes).warnings
    if warning is None:
        assert not [text for text in warnings if text.startswith("privacy.delta")]
    else:
        assert any(warning in text for text in warnings)


@pytest.mark.parametrize(
    ("text", "line", "key", "first"),
    [
        ("privacy: {epsilon: 1}\ntask: a\nprivacy: {epsilon: 4}\n", 3, "privacy", 1),
        ("task: a\nprivacy:\n  epsilon: 1\n  epsilon: 4\n", 4, "epsilon", 3),
        ("plms: [{name: a, name: b}]", 1, "name", 1),
    ],
)
def test_a_key_that_is_written_twice_is_refused_with_file_line_and_key(
    tmp_path: Path, text: str, line: int, key: str, first: int
) -> None:
    said = f"line {line}: the key '{key}' is written twice, first in line {first}"
    for load in (
        lambda path: load_config(WaspConfig, path),
        load_task,
        lambda path: load_config(CompareConfig, path),
    ):
        file = tmp_path / "mine.yaml"
        file.write_text(text)
        with pytest.raises(ConfigError, match=re.escape(f"{file}, {said}. Remove one of the two")):
            load(file)


def test_merged_keys_may_be_overwritten_and_a_broken_file_is_named_with_its_line(
    tmp_path: Path,
) -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2}\n<<: *b\nc: [{<<: [*a, *b], y: 3}, *b]\nx: 5"
    assert parse_yaml(text, "f.yaml") == yaml.safe_load(text)
    file = tmp_path / "mine.yaml"
    file.write_text("task: a\nprivacy: {epsilon: 4\n")
    with pytest.raises(ConfigError, match=r"mine.yaml, line 3: is not YAML"):
        load_config(WaspConfig, file)
    file.write_text(yaml.safe_dump(SMALL))
    with pytest.raises(
        ConfigError, match="--set privacy, line 1: the key 'epsilon' is written twice"
    ):
        load_config(WaspConfig, file, ["privacy={epsilon: 1, epsilon: 4}"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a\n- b", "a configuration is a mapping"),
        (b"a: [", "run.yaml, line 1: is not YAML"),
        (b"task: a\nlimits:\n\tmax: 1", "run.yaml, line 3: is not YAML"),
        (b"task: \x01", "Save it as plain text"),
        ("# für\n".encode("latin-1"), "is not UTF-8 text from byte 3 on. Save it as UTF-8"),
        ("task: a".encode("utf-16"), "Save it as UTF-8"),
        (
            b"task: a\ndate: 2024-13-45",
            "run.yaml, line 2: '2024-13-45' is not a valid date or number. Put it in",
        ),
        (None, "there is no such file"),
        ("folder", "is a folder. Give the path of a YAML file"),
    ],
)
def test_a_file_that_is_no_configuration_is_named_with_what_to_do(
    tmp_path: Path, content: bytes | str | None, message: str
) -> None:
    path = tmp_path / "run.yaml"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "folder":
        path.mkdir()
    with pytest.raises(ConfigError, match=message) as refused:
        load_config(WaspConfig, path)
    assert str(path) in str(refused.value)


def test_set_changes_values_and_refuses_nonsense(tmp_path: Path) -> None:
    path = written(tmp_path / "run.yaml", SMALL)
    config = load_config(
        WaspConfig, path, ["privacy.epsilon=2", "plms.0.name=first", "private.name=x"]
    )
    assert (config.privacy.epsilon, config.plms[0].name, config.private.name) == (2, "first", "x")
    for change in ("privacy.epsilon", "=3", "plms.9.name=x", "task.name.x=1", "task=[a"):
        with pytest.raises(WaspError, match=r"--set"):
            load_config(WaspConfig, path, [change])


def test_a_change_of_a_schedule_replaces_one_value_and_no_other() -> None:
    before = check_config(WaspConfig, SMALL, "the test")
    changed = with_changes(before, ["privacy.epsilon=2", "plms.0.name=first"])
    assert (changed.privacy.epsilon, changed.plms[0].name) == (2.0, "first")
    privacy = changed.privacy.model_copy(update={"epsilon": before.privacy.epsilon})
    assert changed.model_copy(update={"privacy": privacy, "plms": before.plms}) == before
    assert with_changes(before, None) is before
    for change, message in (
        ("privacy.epsilon=-2", "changes:.*privacy.epsilon"),
        ("privacy.epsilom=2", "did you mean 'epsilon'"),
        ("epsilon", "write it as name=value"),
        ("plms.0.key=sk-abcdefghijklmnopqrstuvwx", "plms.0.key"),
    ):
        with pytest.raises(ConfigError, match=rf"(?s){message}"):
            with_changes(before, [change])


def test_a_relative_data_root_starts_from_the_file_and_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "configs" / "run.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(SMALL | {"data_root": "../data"}), encoding="utf-8")
    assert load_config(WaspConfig, path).data_root == str(tmp_path / "data")
    monkeypatch.setenv("WASP_DATA", "/elsewhere")
    assert load_config(WaspConfig, path).data_root == "/elsewhere"


def test_a_shipped_configuration_uses_the_folder_of_the_user_without_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "package" / "deployments" / "configs"
    shipped.mkdir(parents=True)
    path = shipped / "run.yaml"
    path.write_text(yaml.safe_dump(SMALL | {"data_root": "../../../shared/data"}), encoding="utf-8")
    monkeypatch.setattr(files, "SHIPPED", shipped)
    monkeypatch.delenv("WASP_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert load_config(WaspConfig, path).data_root == str(tmp_path / "share/wasp/data")
    (tmp_path / "shared/data").mkdir(parents=True)
    assert load_config(WaspConfig, path).data_root == str(tmp_path / "shared/data")
    monkeypatch.setenv("WASP_DATA", "/elsewhere")
    assert load_config(WaspConfig, path).data_root == "/elsewhere"


def test_other_public_rows_make_another_run(home: Path, tmp_path: Path) -> None:
    names = set()
    for tag in ("first", "second"):
        path = table(tmp_path / "public.parquet", good_rows(tag))
        names.add(start(home, public={"path": path}).tools.run_id)
    assert len(names) == 2


def test_a_task_file_is_found_next_to_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("name: own\nitem: text\nlabels: [a, b]\n", encoding="utf-8")
    path = written(tmp_path / "run.yaml", values(task="own.yaml"))
    assert load_config(WaspConfig, path).task == str(tmp_path / "own.yaml")


def test_a_state_folder_that_cannot_be_made_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("WASP_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="Set WASP_HOME"):
        state_folder()


def test_a_nearly_full_disk_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_module, "MIN_FREE_BYTES", 10**18)
    with pytest.raises(ArtifactError, match="Free space"):
        check_room(tmp_path)


# --- variables WASP_*: types, empty values, unknown names
def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_DATA", "")
    assert environment().data is None
    monkeypatch.setenv("WASP_DATA", "rows")
    assert environment().data == Path("rows")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WASP_LEDGER_KEY_FILE", "key", r"removed in 0\.3\. Copy that file to private/ledger\.key"),
        ("WASP_QUIET", "perhaps", ".*perhaps"),
    ],
)
def test_a_removed_variable_or_an_invalid_value_is_refused_with_what_to_do(
    name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{name}: {message}"):
        environment()


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASP_LEDGERURL", "sqlite:///a.db")
    monkeypatch.setenv("WASP_SECRET_OPENAI", "x")
    assert "WASP_LEDGERURL" in unknown_variables()
    assert "WASP_SECRET_OPENAI" not in unknown_variables()


# --- money
@pytest.mark.parametrize("connector", ["openai", "anthropic"])
def test_a_cap_on_money_without_a_price_is_refused_with_the_way_out(
    tmp_path: Path, connector: str
) -> None:
    paid = {"name": "gpt", "connector": connector, "model": "m"}
    config = written(
        tmp_path / "config.yaml", values(plms=[*SMALL["plms"], paid], limits={"max_dollars": 0.005})
    )
    with pytest.raises(
        ConfigError, match=r"limits\.max_dollars: a limit of 0\.005 dollars .*'gpt'"
    ) as refused:
        plan("wasp", config, [])
    assert refused.value.exit_code == 2
    for advice in ("Set the price", "zeros for a free server", "remove the limit"):
        assert advice in str(refused.value)
    change = "plms.2.price={input: 0, output: 0}"
    assert "hard stop at 0.005" in words.plan(plan("wasp", config, [change]))
    in_options = "plms.2.options={price: {input: 1.5, output: 2, date: 2026-01-01}}"
    assert plan("wasp", config, [in_options])["dollars_about"] > 0
    with pytest.raises(ConfigError, match=r"plms\.2\.price\.output: is missing"):
        plan("wasp", config, ["plms.2.options={price: {input: 1.5}}"])


def test_a_listed_price_is_the_default_of_a_model_at_its_vendor_and_is_said(tmp_path: Path) -> None:
    paid = {"name": "gpt", "connector": "openai", "model": "gpt-4o-mini"}
    config = written(
        tmp_path / "config.yaml", values(plms=[*SMALL["plms"], paid], limits={"max_dollars": 5.0})
    )
    planned = plan("wasp", config, [])
    assert planned["dollars_about"] > 0
    assert any(
        "shipped price of" in warning and "https://" in warning for warning in planned["warnings"]
    )
    dearer = plan("wasp", config, ["plms.2.price={input: 0.3, output: 1.2}"])
    assert dearer["dollars_about"] == pytest.approx(2 * planned["dollars_about"])
    assert not any("shipped price of" in warning for warning in dearer["warnings"])
    with pytest.raises(ConfigError, match=r"needs the price of 'gpt'"):
        plan("wasp", config, ["plms.2.endpoint=http://gpu:8000/v1"])


def test_every_listed_price_has_a_date_and_a_source() -> None:
    for (connector, model), listed in listed_prices().items():
        assert connector in ("openai", "anthropic"), model
        assert date.fromisoformat(listed.price.date).year >= 2026
        assert listed.source.startswith("https://")
        assert 0 < listed.price.input < listed.price.output
