"""Linear layers that train with oneDNN's float32 products.

torch includes these but does not use them for linear layers. It passes float32 products to MKL, which uses half of the
capacity of some processors; connectors/embedders/backend.py switches to oneDNN for embeddings as well. Weights are
neither moved nor changed; results differ by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from tasks.students.loop import import_torch

_NEAR = 1e-4
"""Largest difference to torch's product in the check, relative to numbers of size 1; rounding is 3e-6."""


def use_onednn(modules: Any) -> list[Any]:
    """Compute plain linear layers of `modules` with oneDNN, in both directions.

    Return these layers.
    """
    torch = import_torch()
    plain = [layer for layer in modules.modules() if type(layer) is torch.nn.Linear] if usable() else []
    for layer in plain:
        layer.forward = partial(_linear, layer)
    return plain


@contextmanager
def by_onednn(modules: Any) -> Iterator[None]:
    """Use oneDNN inside the block only.

    Models that are saved later are the library's own.
    """
    layers = use_onednn(modules)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


@cache
def usable() -> bool:
    """Return True if this torch has oneDNN's product and it agrees with torch's.

    The check uses fixed numbers.
    """
    torch = import_torch()
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    rows, weight, above = (torch.randn(shape, generator=generator) for shape in ((3, 5, 40), (24, 40), (3, 5, 24)))
    bias = torch.randn(24, generator=generator)
    results = []
    for compute in (torch.nn.functional.linear, _function().apply):
        inputs = [tensor.clone().requires_grad_() for tensor in (rows, weight, bias)]
        try:
            with torch.enable_grad():
                result = compute(*inputs)
            results.append((result.detach(), *torch.autograd.grad(result, inputs, above)))
        except (RuntimeError, AttributeError):
            return False
    return all(torch.allclose(first, second, rtol=_NEAR, atol=_NEAR) for first, second in zip(*results, strict=True))


def _linear(layer: Any, rows: Any) -> Any:
    torch = import_torch()
    supported = rows.device.type == "cpu" and rows.dtype == layer.weight.dtype == torch.float32
    if not supported or torch.is_autocast_enabled("cpu"):
        return torch.nn.functional.linear(rows, layer.weight, layer.bias)
    return _function().apply(rows, layer.weight, layer.bias)


@cache
def _function() -> Any:
    torch = import_torch()

    def product(rows: Any, weight: Any, bias: Any = None) -> Any:
        return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")

    class OneDnnLinear(torch.autograd.Function):  # type: ignore[misc,name-defined]
        """Rows times weights, with gradients.

        y = x W' + b, dx = dy W, dW = dy' x, db = sum of dy.
        """

        @staticmethod
        def forward(context: Any, rows: Any, weight: Any, bias: Any) -> Any:
            context.save_for_backward(rows, weight)
            return product(rows, weight, bias)

        @staticmethod
        def backward(context: Any, above: Any) -> tuple[Any, Any, Any]:
            rows, weight = context.saved_tensors
            needed = context.needs_input_grad
            flat = above.reshape(-1, above.shape[-1])
            below = product(flat, weight.t()).reshape(rows.shape) if needed[0] else None
            slopes = product(flat.t(), rows.reshape(-1, rows.shape[-1]).t()) if needed[1] else None
            return below, slopes, flat.sum(0) if needed[2] else None

    return OneDnnLinear
