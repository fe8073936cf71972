"""The tutorial of connectors/README.md, done as it is written."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import connectors
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.registry import check_connector, open_model
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.openai import OpenAIModel
from flows.config.models import Plm
from flows.config.paths import model_spec
from tests.support.packages import install
from wasp.testing import LanguageModelContract

TEXT = (Path(connectors.__file__).parent / "README.md").read_text(encoding="utf-8")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", TEXT, re.S)[1]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Both files, installed the way pip leaves a package behind."""
    monkeypatch.syspath_prepend(tmp_path)
    install(
        tmp_path, "parrot", block("python"), tomllib.loads(block("toml"))["project"]["entry-points"]
    )
    yield
    sys.modules.pop("parrot", None)


class TestTheModelOfTheTutorial(LanguageModelContract):
    @pytest.fixture
    def model(self, installed):
        return open_model(ModelSpec("polly", "parrot", "grey"))

    def test_it_answers_under_its_name_in_the_run(self, model):
        assert model.name == "polly"
        assert model.complete([Prompt("Write.", "joy")])[0].text == "joy, says the parrot"


def test_a_connector_that_is_installed_while_a_process_lives_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="no connector 'later'"):
        check_connector("polly", "later")
    install(tmp_path, "later", "", {"wasp.connectors": {"later": "later:Later"}})
    check_connector("polly", "later")


def test_the_class_is_short():
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 14


def test_the_models_of_the_example_can_be_opened():
    known = {"openai": OpenAIModel, "anthropic": AnthropicModel}
    for entry in yaml.safe_load(block("yaml"))["plms"]:
        model = known[entry["connector"]].from_spec(model_spec(Plm(**entry), None))
        assert model.name == entry["name"]
