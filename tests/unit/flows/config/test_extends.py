"""Configurations by name, and the line of a wrong value."""

import re
from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError
from flows.catalog import find_flow, flow_names
from flows.config.extends import find_config, flow_and_file
from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig

TRIAGE = """flow: fusegen
task: support_desk
plms:
  - {name: clerk, connector: ngram, model: helpdesk}
"""


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


def test_a_file_of_the_working_folder_comes_first_and_names_its_flow(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(TRIAGE)
    flow, path = flow_and_file("demo", None, flow_names())
    assert (flow, path) == ("fusegen", Path("demo.yaml"))
    assert load_config(find_flow(flow).config, Path("demo")).task == "support_desk"
    assert find_config(Path("nowhere/demo.yaml")) == Path("nowhere/demo.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "NAME: is missing"),
        ("nosuch", "there is no flow"),
        ("fusegen", "--config: is missing"),
        ("other", "'nosuch' is not a flow"),
    ],
)
def test_a_name_without_a_configuration_is_one_clear_error(
    name: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "other.yaml").write_text("flow: nosuch\n")
    with pytest.raises(ConfigError, match=message):
        flow_and_file(name, None, flow_names())


def test_another_flow_or_a_misspelt_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TRIAGE)
    for flow, message in (
        ("wasp", "another flow. Run it with: wasp run mine"),
        ("wsap", r"wsap: there is no such flow. Did you mean 'wasp'\? Flows: "),
    ):
        with pytest.raises(ConfigError, match=message):
            flow_and_file(flow, path, flow_names())
    assert (
        flow_and_file("fusegen", path, flow_names())
        == flow_and_file(None, path, flow_names())
        == ("fusegen", path)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("privacy: {delta: 1.0e-5,\n  epsilon: -1}\n", r"privacy\.epsilon: .*, line 6$"),
        ("method:\n  samples: 90\n  votez: 8\n", r"method\.votez: unknown key.*, line 7$"),
        ("student: 3\n", r"student: .*, line 5$"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TRIAGE + text)
    with pytest.raises(ConfigError) as error:
        load_config(WaspConfig, path)
    assert any(re.search(message, line) for line in str(error.value).splitlines()), str(error.value)
    path.write_text(TRIAGE)
    with pytest.raises(ConfigError, match=r"privacy\.epsilon") as error:
        load_config(WaspConfig, path, ["privacy.epsilon=-1"])
    assert "line" not in str(error.value), "a value of the command line has none"


BASE = """task: support_desk
plms:
  - {name: clerk, connector: ngram, model: helpdesk}
privacy: {epsilon: 2, delta: 1.0e-6}
data_root: data
"""


def test_a_configuration_extends_others_field_by_field(tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    (tmp_path / "bases" / "base.yaml").write_text(BASE)
    (tmp_path / "middle.yaml").write_text("extends: bases/base\nprivacy: {epsilon: 3}\n")
    (tmp_path / "mine.yaml").write_text("extends: middle\nflow: wasp\nprivacy: {epsilon: 1}\n")
    config = load_config(WaspConfig, Path("mine"), ["method.samples=90"])
    assert (config.privacy.epsilon, config.privacy.delta, config.method.samples) == (1, 1e-6, 90)
    assert config.data_root == str(tmp_path / "bases" / "data"), (
        "relative to the file that writes it"
    )
    (tmp_path / "demo_here.yaml").write_text("extends: votes\nprivacy: {epsilon: 1}\n")
    shipped = load_config(WaspConfig, Path("demo_here"))
    assert (shipped.privacy.epsilon, shipped.method.guidance, len(shipped.plms)) == (1, "votes", 5)


def test_a_file_has_several_settings(tmp_path: Path) -> None:
    indented = BASE.replace("\n", "\n    ")
    text = f"shared:\n  base:\n    {indented}\nsettings:\n  low: {{extends: base, privacy: {{epsilon: 1}}}}\n"
    (tmp_path / "mine.yaml").write_text(f"{text}  fusegen_low: {{extends: low}}\n")
    flow, path = flow_and_file("mine#low", None, flow_names())
    assert (flow, load_config(WaspConfig, path).privacy.epsilon) == ("wasp", 1)
    assert flow_and_file("mine#fusegen_low", None, flow_names())[0] == "fusegen"
    with pytest.raises(
        ConfigError,
        match=r"mine.yaml: contains several settings. Write mine.yaml#NAME with one of: low",
    ):
        flow_and_file("mine", None, flow_names())
    with pytest.raises(ConfigError, match="there is no setting 'high'. Write mine.yaml#NAME"):
        load_config(WaspConfig, Path("mine#high"))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("extends: nosuch", "", "first.yaml: extends: there is no configuration 'nosuch'"),
        ("extends: [demo]", "", "first.yaml: extends: must be the name of a configuration"),
        ("extends: second", "extends: first", "the bases form a circle"),
        ("extends: first", "", "the bases form a circle"),
        ("extends: second#low", "task: t", "second.yaml#low: this file has no settings"),
        (
            "extends: second",
            "method: {votez: 1}",
            r"method\.votez: unknown key.*, line 1 of .*second.yaml",
        ),
    ],
)
def test_a_wrong_base_is_one_clear_error(
    first: str, second: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "first.yaml").write_text(f"{first}\n")
    (tmp_path / "second.yaml").write_text(f"{second}\n" if second else "")
    with pytest.raises(ConfigError, match=message):
        load_config(WaspConfig, Path("first"))
