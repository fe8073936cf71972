"""prefect.yaml is what the registry says: every flow with its filled forms, nothing that runs by itself, no machine."""

import re
from importlib import import_module

import pytest
import yaml
from prefect import Flow

from deployments.prefect_file import PREFECT_FILE, render
from deployments.registry import CONFIGS, Deployment, deployments, enter_data_folder, form_values
from flows.catalog import flows
from flows.config.files import check_config, load_config

FILE = yaml.safe_load(PREFECT_FILE.read_text(encoding="utf-8"))
ALL = pytest.mark.parametrize("one", deployments(), ids=lambda one: f"{one.flow}/{one.name}")
PRESETS = pytest.mark.parametrize(
    ("entry", "preset"), [(e, p) for e in flows() for p in e.presets], ids=lambda one: getattr(one, "name", one)
)


def test_the_file_is_current() -> None:
    assert PREFECT_FILE.read_text(encoding="utf-8") == render(), "type make deployments"


def test_every_flow_has_a_demo_and_if_it_opens_rows_a_form_for_own_data() -> None:
    for entry in flows():
        assert {"demo", "own-data"} if entry.opens_rows else {"demo"} <= {preset.name for preset in entry.presets}, (
            entry.name
        )


@ALL
def test_the_entrypoint_is_the_flow(one: Deployment) -> None:
    module, _, name = one.entrypoint.rpartition(".")
    flow = getattr(import_module(module), name)
    assert isinstance(flow, Flow)
    assert flow.name == one.flow
    assert set(one.parameters) <= set(flow.parameters.properties)


@PRESETS
def test_a_form_holds_the_whole_configuration_but_its_blank_fields(entry, preset) -> None:
    values = form_values(entry, preset)
    config = load_config(entry.config, CONFIGS / preset.file)
    for field in preset.blank:
        *groups, last = field.split(".")
        group, source = values, config
        for name in groups:
            group, source = group[name], getattr(source, name)
        assert last not in group
        group[last] = getattr(source, last)
    filled = check_config(entry.config, values, preset.name)
    machines_own = {"data_root": None} if "data_root" in entry.config.model_fields else {}
    assert filled == config.model_copy(update=machines_own)


@pytest.mark.parametrize("values", FILE["deployments"], ids=lambda one: one["entrypoint"] + one["name"])
def test_nothing_starts_by_itself_and_two_never_run_at_once(values) -> None:
    assert all(schedule["active"] is False for schedule in values["schedules"])
    assert values["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    assert values["work_pool"]["job_variables"]["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == "30"
    assert values["description"]
    assert values["tags"]


def test_no_path_of_a_machine_and_no_secret_stands_in_the_file() -> None:
    text = PREFECT_FILE.read_text(encoding="utf-8")
    assert not re.search(r"(^|[\s'\"])(/|~|[A-Z]:\\)\w", text, re.MULTILINE)
    assert "data_root" not in text
    assert "prefect.blocks.secret" not in text


def test_a_changed_form_is_another_version() -> None:
    demo = deployments()[0]
    other = Deployment(demo.flow, demo.name, demo.entrypoint, demo.description, demo.tags, {"config": {}})
    assert demo.version != other.version
    assert demo.version == deployments()[0].version


def test_relative_paths_start_in_the_workers_data_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.csv").touch()
    monkeypatch.setenv("WASP_DATA", str(tmp_path / "data"))
    assert enter_data_folder() == {"directory": str(tmp_path / "data")}
    assert (tmp_path / "data").samefile(".")


def test_a_data_folder_that_is_not_there_is_named(tmp_path, monkeypatch) -> None:
    from connectors.interfaces.errors import ConfigError

    monkeypatch.setenv("WASP_DATA", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match="WASP_DATA of the worker: .*gone cannot be entered"):
        enter_data_folder()
