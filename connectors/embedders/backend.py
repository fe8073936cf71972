"""What computes a sentence embedder's vectors: torch's own linear layers, oneDNN's in float32, or bfloat16 ones.

torch carries oneDNN but gives float32 products to MKL, which uses half of what some processors can do: with oneDNN an
all-MiniLM-L6-v2 runs at twice the rate on an AMD one, without another package and without a converted copy of the
model. A runtime of its own (ONNX Runtime, OpenVINO) gained a twelfth more, and both send usage data to their makers by
default.

The back end is no part of an embedder's `identity`, which names private rows' vectors and what was released of them:
otherwise another machine, or another build of torch, between two starts of one run would make another release of the
same rows. It may be left out because a back end that is not equal to torch does not count: whenever a model is loaded,
the vectors of fixed texts are compared, so that two back ends differ as two machines or two batches do, by rounding.
Which one it is depends on no private row. `bfloat16` differs by more, and is in the identity.
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
"""Most that a back end's vector may be away from torch's, as a part of its length; rounding is 3e-7."""
LEAST_COSINE = 0.999
"""Least that a bfloat16 vector and the float32 one must have in common; all-MiniLM-L6-v2: 0.99997."""

PROBES = (
    "My card has not arrived yet.",
    "short",
    "Größe: 3 µm, 東京, naïve café — 100 %",
    "What is the exchange rate for euros today, and does it change at the weekend?",
    "The film was far too long, and its end came as no surprise to anybody who had seen the first one. " * 5,
)
"""Texts of the comparison: short, long, of other scripts; no text of a user's."""

_log = logging.getLogger(__name__)

Vectors = Callable[[list[str]], "Matrix"]
"""Texts in one batch to their vectors, by the model as it is now."""


def check_choice(backend: str, precision: str) -> None:
    """Raise ConfigError for a back end or precision that there is not, or that this processor has not."""
    if backend not in BACKENDS:
        raise ConfigError(f"embedder.backend is '{backend}'; write {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}.")
    if precision in ("int8", "uint8"):
        raise ConfigError(
            f"embedder.precision: {precision} is refused. Its vectors look alike (cosine 0.99), yet 11 to 16 % of the "
            "votes go to other texts. Write float32 or bfloat16 (about 1 %)."
        )
    if precision not in PRECISIONS:
        raise ConfigError(f"embedder.precision is '{precision}'; write float32 or bfloat16.")
    if backend == "torch" and precision == "bfloat16":
        raise ConfigError(
            "embedder.precision: bfloat16 is computed by oneDNN on a processor; leave out backend: torch."
        )


def check_processor(device: str | None, precision: str) -> None:
    """Raise ConfigError, before anything is embedded, where bfloat16 was asked of a processor that has none."""
    if precision != "bfloat16":
        return
    import torch

    if device != "cpu" and (device is not None or torch.accelerator.is_available()):
        return
    able = torch.cpu.get_capabilities()
    if not (able.get("avx512_bf16") or able.get("amx_bf16")):
        raise ConfigError(
            "embedder.precision: this processor computes no bfloat16 (avx512_bf16 or amx_bf16), and is slower with it. "
            "Write float32."
        )


def settle(model: Any, backend: str, precision: str, vectors: Vectors) -> str:
    """Let `model` compute as it was chosen, after a comparison with torch; return what computes, in words.

    `auto` keeps torch, and says so in the log, where oneDNN is missing or its vectors are not equal. Raises ConfigError
    where the same happens to what was asked for.
    """
    if model.device.type != "cpu":
        return _on_accelerator(model, backend, precision)
    if backend == "torch":
        return _told("torch", precision)
    expected = _probe(vectors)
    problem, restore = "", None
    try:
        restore = _pack(model, precision)
        problem = _difference(expected, _probe(vectors), precision)
    except (RuntimeError, AttributeError) as error:
        problem = f"oneDNN cannot compute it ({str(error).splitlines()[0]})"
    if not problem:
        return _told("oneDNN", precision)
    if precision == "bfloat16":
        raise ConfigError(f"embedder.precision: bfloat16 will not do for this model: {problem}. Write float32.")
    if backend == "onednn":
        raise ConfigError(f"embedder.backend: onednn will not do for this model: {problem}. Write torch.")
    if restore is not None:
        restore()
    _log.warning("Embeddings are computed by torch's own layers, not oneDNN's: %s.", problem)
    return _told("torch", precision)


def _on_accelerator(model: Any, backend: str, precision: str) -> str:
    if backend == "onednn":
        raise ConfigError("embedder.backend: onednn computes on a processor; write device: cpu, or backend: auto.")
    if precision == "bfloat16":
        import torch

        forward = model.forward

        def reduced(*given: Any, **named: Any) -> Any:
            with torch.autocast(model.device.type, torch.bfloat16):
                return forward(*given, **named)

        model.forward = reduced
    return _told(f"torch on {model.device}", precision)


def _told(what: str, precision: str) -> str:
    return f"{what}, {precision}, torch {version('torch')}"


def _probe(vectors: Vectors) -> Matrix:
    import numpy as np

    return np.concatenate([vectors(list(PROBES)), *(vectors([text]) for text in PROBES)])


def _difference(expected: Matrix, found: Matrix, precision: str) -> str:
    """Return how far vectors are from torch's, empty where that is near enough."""
    import numpy as np

    lengths = np.linalg.norm(expected, axis=1)
    if not np.isfinite(found).all():
        return "it gives numbers that are not finite"
    if precision == "bfloat16":
        cosine = float(((expected * found).sum(axis=1) / (lengths * np.linalg.norm(found, axis=1))).min())
        return "" if cosine >= LEAST_COSINE else f"the cosine with float32 is {cosine:.4f}, {LEAST_COSINE} is needed"
    far = float((np.linalg.norm(expected - found, axis=1) / lengths).max())
    return "" if far <= TOLERANCE else f"a vector is {far:.1e} of its length away, {TOLERANCE:.0e} is allowed"


def _pack(model: Any, precision: str) -> Callable[[], None]:
    """Put oneDNN's layers in the place of all plain linear ones; return what puts those back."""
    import torch

    if not torch.backends.mkldnn.is_available():
        raise RuntimeError("this torch was built without it")
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    layer = _layer(torch, dtype)
    places = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        # Subclasses compute something else, or are read without being called.
        if type(child) is torch.nn.Linear and child.weight.dtype == torch.float32
    ]
    fresh = {id(child): layer(child) for _, _, child in places}

    def put(modules: Sequence[Any]) -> None:
        for (parent, name, _), module in zip(places, modules, strict=True):
            setattr(parent, name, module)

    put([fresh[id(child)] for _, _, child in places])
    return lambda: put([child for _, _, child in places])


def _layer(torch: Any, dtype: Any) -> Any:
    operations = torch.ops.mkldnn

    class PackedLinear(torch.nn.Module):  # type: ignore[misc]
        """A linear layer whose weights oneDNN has laid out for itself; input and output are float32."""

        def __init__(self, plain: Any) -> None:
            super().__init__()
            self.weight = operations._reorder_linear_weight(plain.weight.detach().to(dtype), None)
            self.bias = None if plain.bias is None else plain.bias.detach().to(dtype)

        def forward(self, rows: Any) -> Any:
            return operations._linear_pointwise(rows.to(dtype), self.weight, self.bias, "none", [], "").to(rows.dtype)

    return PackedLinear
