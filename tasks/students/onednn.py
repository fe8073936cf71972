"""Linear layers that learn by oneDNN's float32 products, which torch carries but does not use for them on its own.

torch gives float32 products to MKL, which uses half of what some processors can do (connectors/embedders/backend.py has
the same for embeddings). Weights stay where they are and as they are; results differ by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from tasks.students.loop import import_torch

_NEAR = 1e-4
"""Most that a product of the check may be away from torch's, beside numbers of size 1; rounding is 3e-6."""


def use_onednn(modules: Any) -> list[Any]:
    """Let oneDNN compute, forwards and backwards, every plain linear layer of `modules`; return these layers."""
    torch = import_torch()
    plain = [one for one in modules.modules() if type(one) is torch.nn.Linear] if usable() else []
    for layer in plain:
        layer.forward = partial(_linear, layer)
    return plain


@contextmanager
def by_onednn(modules: Any) -> Iterator[None]:
    """Do so inside the block alone, so that what is saved afterwards is the model as its library knows it."""
    layers = use_onednn(modules)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


@cache
def usable() -> bool:
    """Return whether this torch has oneDNN's product and it says the same as torch's, on fixed numbers."""
    torch = import_torch()
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    rows, weight, above = (torch.randn(shape, generator=generator) for shape in ((3, 5, 40), (24, 40), (3, 5, 24)))
    bias = torch.randn(24, generator=generator)
    found = []
    for compute in (torch.nn.functional.linear, _function().apply):
        given = [tensor.clone().requires_grad_() for tensor in (rows, weight, bias)]
        try:
            with torch.enable_grad():
                result = compute(*given)
            found.append((result.detach(), *torch.autograd.grad(result, given, above)))
        except (RuntimeError, AttributeError):
            return False
    return all(torch.allclose(one, other, rtol=_NEAR, atol=_NEAR) for one, other in zip(*found, strict=True))


def _linear(layer: Any, rows: Any) -> Any:
    torch = import_torch()
    suits = rows.device.type == "cpu" and rows.dtype == layer.weight.dtype == torch.float32
    if not suits or torch.is_autocast_enabled("cpu"):
        return torch.nn.functional.linear(rows, layer.weight, layer.bias)
    return _function().apply(rows, layer.weight, layer.bias)


@cache
def _function() -> Any:
    torch = import_torch()

    def product(rows: Any, weight: Any, bias: Any = None) -> Any:
        return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")

    class OneDnnLinear(torch.autograd.Function):  # type: ignore[misc,name-defined]
        """Rows times weights, and its gradients: y = x W' + b, dx = dy W, dW = dy' x, db = sum of dy."""

        @staticmethod
        def forward(context: Any, rows: Any, weight: Any, bias: Any) -> Any:
            context.save_for_backward(rows, weight)
            return product(rows, weight, bias)

        @staticmethod
        def backward(context: Any, above: Any) -> tuple[Any, Any, Any]:
            rows, weight = context.saved_tensors
            wanted = context.needs_input_grad
            flat = above.reshape(-1, above.shape[-1])
            below = product(flat, weight.t()).reshape(rows.shape) if wanted[0] else None
            slopes = product(flat.t(), rows.reshape(-1, rows.shape[-1]).t()) if wanted[1] else None
            return below, slopes, flat.sum(0) if wanted[2] else None

    return OneDnnLinear
