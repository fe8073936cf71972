"""prefect.yaml: every flow with a filled form, no machine."""

import re

import pytest
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import validate

from connectors.interfaces.errors import ConfigError
from deployments.registry import PREFECT_FILE, Deployment, deployments, enter_data_folder, form
from flows.catalog import find_flow, flow_names
from flows.config.extends import SHIPPED
from flows.config.files import load_config

ALL = pytest.mark.parametrize("item", deployments(), ids=lambda item: item.entry["name"])


def test_every_flow_has_a_deployment_and_each_form_has_its_name() -> None:
    forms = [item for item in deployments() if "config" in item.entry]
    assert {item.flow.name for item in forms} == set(flow_names())
    assert len(forms) == 14
    names = [item.entry["name"] for item in deployments()]
    assert len(set(names)) == len(names), "prefect deploy selects them by name"


@ALL
def test_the_server_accepts_a_form_with_the_whole_configuration_but_its_blank_fields(
    item: Deployment,
) -> None:
    # The server does not require what a registration leaves out.
    validate(
        item.parameters,
        parameter_schema(item.flow).model_dump(),
        raise_on_error=True,
        ignore_required=True,
    )
    assert form(item.entry["name"]) == {
        "config": item.parameters.get("config"),
        "version": item.version,
    }
    if "config" not in item.entry:
        return
    config = load_config(find_flow(item.flow.name).config, SHIPPED / f"{item.entry['config']}.yaml")
    values, whole = item.parameters["config"], config.model_dump(mode="json", exclude_none=True)
    for field in [*item.entry.get("blank", []), "data_root"]:
        *groups, last = field.split(".")
        group, source = values, whole
        for name in groups:
            group, source = group[name], source[name]
        assert last not in group
        source.pop(last, None)
    assert values == whole


def test_no_path_of_a_machine_and_no_secret_is_in_the_file() -> None:
    text = PREFECT_FILE.read_text(encoding="utf-8")
    assert not re.search(r"(^|[\s'\"])(/|~|[A-Z]:\\)\w", text, re.MULTILINE)
    assert "prefect.blocks.secret" not in text


def test_a_changed_form_or_other_checks_of_the_server_are_another_version(monkeypatch) -> None:
    demo = deployments()[0]
    version = demo.version
    assert version == deployments()[0].version
    assert version != Deployment({**demo.entry, "config": "votes"}).version
    monkeypatch.setattr("deployments.registry.SERVER_CHECKS", ("others",))
    assert version != deployments()[0].version


def test_relative_paths_start_in_the_workers_data_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("WASP_DATA", str(tmp_path / "data"))
    assert enter_data_folder() == {"directory": str(tmp_path / "data")}
    assert (tmp_path / "data").samefile(".")
    monkeypatch.setenv("WASP_DATA", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match="WASP_DATA of the worker: .*gone cannot be entered"):
        enter_data_folder()
