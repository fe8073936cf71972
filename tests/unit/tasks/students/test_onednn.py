import numpy as np
import pytest

from tasks.students import onednn
from tasks.students.onednn import by_onednn, usable, use_onednn

torch = pytest.importorskip("torch")

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch is built without oneDNN")


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(40, 24), torch.nn.GELU(), torch.nn.Linear(24, 3, bias=False))


def learned(modules, rows, autocast=False):
    """Scores and gradients of one step."""
    rows = rows.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        scores = modules(rows)
    found = torch.autograd.grad(scores.float().square().sum(), [rows, *modules.parameters()])
    return [scores.detach().float().numpy(), *(one.numpy() for one in found)]


@needs_onednn
def test_scores_and_gradients_are_those_of_torch_and_its_layers_come_back():
    modules, rows = network(), torch.randn(4, 7, 40, generator=torch.Generator().manual_seed(1))
    expected = learned(modules, rows)
    forward = type(modules[0]).forward
    with by_onednn(modules):
        assert modules[0].forward.func is not forward
        found = learned(modules, rows)
    assert modules[0].forward.__func__ is forward
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=1e-4)


@needs_onednn
def test_bfloat16_is_left_to_torch():
    modules, rows = network(), torch.randn(4, 40, generator=torch.Generator().manual_seed(1))
    expected = learned(modules, rows, autocast=True)
    with by_onednn(modules):
        found = learned(modules, rows, autocast=True)
    assert all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True))


@needs_onednn
def test_a_subclass_of_a_linear_layer_keeps_its_own_product():
    class Doubled(torch.nn.Linear):
        def forward(self, rows):
            return 2 * super().forward(rows)

    modules = torch.nn.Sequential(Doubled(4, 2))
    assert use_onednn(modules) == []


@pytest.mark.parametrize("wrong", ["missing", "different"])
def test_a_torch_whose_product_is_missing_or_different_computes_by_itself(wrong, monkeypatch):
    class Other:
        @staticmethod
        def apply(rows, weight, bias):
            if wrong == "missing":
                raise AttributeError("no such operation")
            return torch.nn.functional.linear(rows, weight * 1.01, bias)

    monkeypatch.setattr(onednn, "_function", lambda: Other)
    usable.cache_clear()
    try:
        assert not usable()
        assert use_onednn(network()) == []
    finally:
        usable.cache_clear()
