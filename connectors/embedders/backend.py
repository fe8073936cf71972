"""Compute back ends of sentence embedders: torch, oneDNN in float32, or bfloat16.

torch includes oneDNN but computes float32 products with MKL, which uses half of the capacity of some processors. With
oneDNN, all-MiniLM-L6-v2 runs at twice the rate on an AMD processor, without another package or a converted copy of the
model. A separate runtime (ONNX Runtime, OpenVINO) gained another twelfth, and both send usage data to their vendors by
default.

The back end is not part of an embedder's `identity`, which names the vectors of private rows and their releases.
Otherwise a change of machine or torch build between two starts of one run would cause another release of the same rows.
This is safe because a back end that differs from torch is not used: after loading a model, the vectors of fixed texts
are compared. Two back ends then differ like two machines or two batches, by rounding. The choice depends on no private
row. `bfloat16` differs by more and is in the identity.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError

if TYPE_CHECKING:
    from connectors.interfaces.embedding import Matrix

BACKENDS = ("auto", "torch", "onednn")
PRECISIONS = ("float32", "bfloat16")
TOLERANCE = 1e-5
"""Maximum distance of a back end's vector from torch's, relative to its length; rounding is 3e-7."""
LEAST_COSINE = 0.999
"""Minimum cosine of a bfloat16 and a float32 vector; all-MiniLM-L6-v2: 0.99997."""

PROBES = (
    "My card has not arrived yet.",
    "short",
    "Größe: 3 µm, 東京, naïve café — 100 %",
    "What is the exchange rate for euros today, and does it change at the weekend?",
    "The film was far too long, and its end came as no surprise to anybody who had seen the first one. " * 5,
)
"""Texts of the comparison: short, long, in other scripts. None belongs to a user."""

_log = logging.getLogger(__name__)

Vectors = Callable[[list[str]], "Matrix"]
"""The vectors of a batch of texts, from the current model."""


def check_choice(backend: str, precision: str) -> None:
    """Raise ConfigError for an unknown or unsupported back end or precision."""
    if backend not in BACKENDS:
        raise ConfigError(f"embedder.backend is '{backend}'; use {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}.")
    if precision in ("int8", "uint8"):
        raise ConfigError(
            f"embedder.precision: {precision} is refused. Its vectors are similar (cosine 0.99), but 11 to 16 % of the "
            "votes change. Use float32 or bfloat16 (about 1 %)."
        )
    if precision not in PRECISIONS:
        raise ConfigError(f"embedder.precision is '{precision}'; use float32 or bfloat16.")
    if backend == "torch" and precision == "bfloat16":
        raise ConfigError("embedder.precision: a CPU computes bfloat16 with oneDNN. Remove backend: torch.")


def check_processor(device: str | None, precision: str) -> None:
    """Raise ConfigError if the processor does not support the configured bfloat16."""
    if precision != "bfloat16":
        return
    import torch

    if device != "cpu" and (device is not None or torch.accelerator.is_available()):
        return
    capabilities = torch.cpu.get_capabilities()
    if not (capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")):
        raise ConfigError(
            "embedder.precision: this processor does not support bfloat16 (avx512_bf16 or amx_bf16). Use float32."
        )


def choose_backend(model: Any, backend: str, precision: str, vectors: Vectors) -> str:
    """Configure a model's back end, compared with torch; return its description.

    `auto` falls back to torch, with a log message, if oneDNN is missing or its vectors differ. For an explicit choice
    these problems raise ConfigError.
    """
    if model.device.type != "cpu":
        return _on_accelerator(model, backend, precision)
    if backend == "torch":
        return _description("torch", precision)
    expected = _probe(vectors)
    problem, restore = "", None
    try:
        restore = _pack(model, precision)
        problem = _difference(expected, _probe(vectors), precision)
    except (RuntimeError, AttributeError) as error:
        problem = f"oneDNN failed ({str(error).splitlines()[0]})"
    if not problem:
        return _description("oneDNN", precision)
    if precision == "bfloat16":
        raise ConfigError(f"embedder.precision: bfloat16 does not work for this model: {problem}. Use float32.")
    if backend == "onednn":
        raise ConfigError(f"embedder.backend: onednn does not work for this model: {problem}. Use torch.")
    if restore is not None:
        restore()
    _log.warning("Embeddings use torch instead of oneDNN: %s.", problem)
    return _description("torch", precision)


def _on_accelerator(model: Any, backend: str, precision: str) -> str:
    if backend == "onednn":
        raise ConfigError("embedder.backend: onednn needs a CPU. Use device: cpu, or backend: auto.")
    if precision == "bfloat16":
        import torch

        forward = model.forward

        def reduced(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(model.device.type, torch.bfloat16):
                return forward(*args, **kwargs)

        model.forward = reduced
    return _description(f"torch on {model.device}", precision)


def _description(backend: str, precision: str) -> str:
    return f"{backend}, {precision}, torch {version('torch')}"


def _probe(vectors: Vectors) -> Matrix:
    import numpy as np

    return np.concatenate([vectors(list(PROBES)), *(vectors([text]) for text in PROBES)])


def _difference(expected: Matrix, vectors: Matrix, precision: str) -> str:
    """Return the problem with vectors that differ from torch's, '' if close enough."""
    import numpy as np

    lengths = np.linalg.norm(expected, axis=1)
    if not np.isfinite(vectors).all():
        return "its numbers are not finite"
    if precision == "bfloat16":
        cosine = float(((expected * vectors).sum(axis=1) / (lengths * np.linalg.norm(vectors, axis=1))).min())
        return "" if cosine >= LEAST_COSINE else f"the cosine with float32 is {cosine:.4f}, {LEAST_COSINE} is needed"
    distance = float((np.linalg.norm(expected - vectors, axis=1) / lengths).max())
    return "" if distance <= TOLERANCE else f"a vector is {distance:.1e} of its length away, {TOLERANCE:.0e} is allowed"


def _pack(model: Any, precision: str) -> Callable[[], None]:
    """Replace all plain linear layers by oneDNN's; return a function to restore them."""
    import torch

    if not torch.backends.mkldnn.is_available():
        raise RuntimeError("this torch build does not include it")
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    layer = _layer(torch, dtype)
    layers = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        # Subclasses compute something else, or are read without a call.
        if type(child) is torch.nn.Linear and child.weight.dtype == torch.float32
    ]
    packed = {id(child): layer(child) for _, _, child in layers}

    def replace(modules: Sequence[Any]) -> None:
        for (parent, name, _), module in zip(layers, modules, strict=True):
            setattr(parent, name, module)

    replace([packed[id(child)] for _, _, child in layers])
    return lambda: replace([child for _, _, child in layers])


def _layer(torch: Any, dtype: Any) -> Any:
    operations = torch.ops.mkldnn

    class PackedLinear(torch.nn.Module):  # type: ignore[misc]
        """A linear layer with weights in oneDNN format; input and output are float32."""

        def __init__(self, plain: Any) -> None:
            super().__init__()
            self.weight = operations._reorder_linear_weight(plain.weight.detach().to(dtype), None)
            self.bias = None if plain.bias is None else plain.bias.detach().to(dtype)

        def forward(self, rows: Any) -> Any:
            return operations._linear_pointwise(rows.to(dtype), self.weight, self.bias, "none", [], "").to(rows.dtype)

    return PackedLinear
