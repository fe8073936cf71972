"""Trains a transformer on private rows by DP-SGD: language models that write, and classifiers.

Abadi et al. 2016, Algorithm 1, with the per-row gradients of Opacus: `hooks` keeps one gradient per row, `ghost` (Li
et al. 2022, Section 4) only its norm and passes backwards twice, with little more memory than plain training. Sampling
and noise are our own (`entropy`), because the secure mode of Opacus cannot be installed and its other mode repeats
itself under a seed. No loss, no norm and no batch size leaves this file: they are functions of the private rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from tasks.accounting.dp_sgd import Clipping, Training, require_opacus
from tasks.private.noise.entropy import gaussian, poisson_sample
from tasks.students.loop import import_torch
from tasks.students.recipe import Recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tasks.private.training.progress import StepsTaken

IGNORED = -100
"""A target that is not learned: padding, and the control text before a row's own."""


@dataclass(frozen=True, slots=True, repr=False)
class EncodedRows:
    """Private rows as numbers, each encoded by itself to one length. Its repr shows nothing.

    `ids`, `mask`: int64, shape (rows, tokens). `targets`: int64; of shape (rows, tokens) for a language model (the
    ids to learn, IGNORED elsewhere), of shape (rows,) for a classifier.
    """

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    targets: NDArray[np.int64]

    def __repr__(self) -> str:
        return "EncodedRows(hidden)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("private rows are never serialised")


def train_privately(
    model: Any, rows: EncodedRows, recipe: Recipe, taken: StepsTaken, advance: Callable[[int], None] = lambda _: None
) -> int:
    """Train `model` in place until all planned steps were begun; return the steps that are in its weights.

    Goes on from the checkpoint of `taken`. Each step: every row takes part with chance q by a draw of its own, its
    gradient is cut to the norm C, noise of sigma C is added to the sum, and the sum is divided by the declared
    mean batch, never by the rows that came. A step that drew no row is noise alone. `advance(1)` follows every step.
    """
    stepper = _Stepper(model, rows, recipe)
    kept = taken.kept()
    done = stepper.load(kept) if kept is not None else 0
    if taken.begun and kept is None:
        taken.keep(stepper.state(), done)
    advance(taken.begun)
    plan = recipe.training.steps
    while taken.begun < plan:
        taken.begin()
        stepper.step()
        done += 1
        if done % recipe.checkpoint_every == 0 or taken.begun == plan:
            taken.keep(stepper.state(), done)
        advance(1)
    stepper.close()
    return done


def gradient_norms(model: Any, rows: EncodedRows, clipping: Clipping = "hooks") -> NDArray[np.float64]:
    """Return the L2 norm of each row's gradient before clipping, shape (rows,). Private: for tests on made-up rows."""
    stepper = _Stepper(model, rows, Recipe(Training(1, 1, 1, clip=1e-9), 1.0, 0.0, clipping))
    norms = stepper.norms(range(len(rows.ids)))
    stepper.close()
    return norms


class _Stepper:
    """One step after another on one model."""

    def __init__(self, model: Any, rows: EncodedRows, recipe: Recipe) -> None:
        require_opacus()
        torch = import_torch()
        self.torch, self.rows, self.recipe = torch, rows, recipe
        self.device = next(model.parameters()).device
        with _quiet():
            _make_ready(model, recipe.clipping)
            self.wrapped = _wrapped(model, recipe)
        self.model = model
        self.parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.optimizer = torch.optim.Adam(self.parameters.values(), lr=recipe.learning_rate)
        self.sums = {name: torch.zeros_like(value) for name, value in self.parameters.items()}

    def step(self) -> None:
        """Sample, sum the clipped gradients, add noise, move."""
        plan = self.recipe.training
        chosen = poisson_sample(len(self.rows.ids), plan.sample_rate)
        for start in range(0, len(chosen), self.recipe.rows_at_once):
            self._add(chosen[start : start + self.recipe.rows_at_once])
        for name, parameter in self.parameters.items():
            parameter.grad = self._noisy(self.sums[name]) / plan.batch_rows
            self.sums[name].zero_()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def norms(self, chosen: Any) -> NDArray[np.float64]:
        """Return the gradient norms of some rows."""
        losses = self._losses(list(chosen))
        with _quiet():
            losses.sum().backward()
        ghost = self.recipe.clipping == "ghost"
        found = self.wrapped.get_norm_sample() if ghost else self._each_norm()
        return found.detach().double().cpu().numpy()  # type: ignore[no-any-return]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return weights and the optimizer's memory as arrays."""
        found = {f"weight {name}": value.detach().cpu().numpy() for name, value in self.parameters.items()}
        for name, value in self.parameters.items():
            for kind, kept in self.optimizer.state.get(value, {}).items():
                found[f"{kind} {name}"] = kept.detach().cpu().numpy()
        return found

    def load(self, kept: tuple[dict[str, NDArray[Any]], int]) -> int:
        """Put back what `state` returned."""
        arrays, done = kept
        tensors = {key: self.torch.from_numpy(value.copy()) for key, value in arrays.items()}
        with self.torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"weight {name}"])
                memory = {key: tensors[f"{key} {name}"] for key in ADAM if f"{key} {name}" in tensors}
                placed = {key: value if key == "step" else value.to(self.device) for key, value in memory.items()}
                if placed:
                    self.optimizer.state[parameter] = placed
        return done

    def close(self) -> None:
        """Take the hooks off the model again."""
        with _quiet():
            self.wrapped.cleanup() if hasattr(self.wrapped, "cleanup") else self.wrapped.remove_hooks()
        for parameter in self.model.parameters():
            for name in ("grad_sample", "_norm_sample", "summed_grad"):
                if hasattr(parameter, name):
                    delattr(parameter, name)
            parameter.grad = None

    def _add(self, chosen: NDArray[np.int64]) -> None:
        """Add the clipped gradients of some rows to the sums."""
        losses = self._losses(chosen)
        with _quiet():
            if self.recipe.clipping == "ghost":
                losses.sum().backward(retain_graph=True)
                self.optimizer.zero_grad(set_to_none=True)
                factors = self.wrapped.get_clipping_coef()
                self.wrapped.disable_hooks()
                (factors * losses).sum().backward()
                self.wrapped.enable_hooks()
                for name, parameter in self.parameters.items():
                    self.sums[name] += parameter.grad
            else:
                losses.sum().backward()
                factors = (self.recipe.training.clip / (self._each_norm() + 1e-6)).clamp(max=1.0)
                for name, parameter in self.parameters.items():
                    if _used(parameter):
                        self.sums[name] += self.torch.einsum("i,i...", factors, parameter.grad_sample)
                        parameter.grad_sample = None
        self.optimizer.zero_grad(set_to_none=True)

    def _each_norm(self) -> Any:
        per_weight = [value.grad_sample.flatten(1).norm(2, dim=1) for value in self.parameters.values() if _used(value)]
        return self.torch.stack(per_weight, dim=1).norm(2, dim=1)

    def _noisy(self, total: Any) -> Any:
        sigma = self.recipe.noise_multiplier * self.recipe.training.clip
        if sigma == 0:
            return total.clone()
        noise = self.torch.from_numpy(gaussian(total.numel(), sigma)).view(total.shape)
        # In double precision, so that the low digits of the sum do not stand out of the noise.
        return (total.double().cpu() + noise).to(total.dtype).to(total.device)

    def _losses(self, chosen: Any) -> Any:
        """Return one loss per row, shape (rows,)."""
        take = [self.torch.from_numpy(part[chosen]).to(self.device) for part in (self.rows.ids, self.rows.mask)]
        targets = self.torch.from_numpy(self.rows.targets[chosen]).to(self.device)
        with _quiet():
            logits = self.wrapped(**_inputs(self.torch, self.model, *take)).logits.float()
        loss = self.torch.nn.functional.cross_entropy
        if targets.dim() == 1:
            return loss(logits, targets, reduction="none")
        wanted = targets[:, 1:]
        each = loss(logits[:, :-1].transpose(1, 2), wanted, reduction="none", ignore_index=IGNORED)
        return each.sum(dim=1) / (wanted != IGNORED).sum(dim=1).clamp(min=1)


ADAM = ("step", "exp_avg", "exp_avg_sq")
"""What the optimizer remembers of a weight."""


def _used(parameter: Any) -> bool:
    """Say whether the loss hangs on a weight (some models bring layers that nothing reads)."""
    return getattr(parameter, "grad_sample", None) is not None


def _inputs(torch: Any, model: Any, ids: Any, mask: Any) -> dict[str, Any]:
    """Return a model's arguments; positions and types have a row each, as per-row gradients need them.

    Many models make them of shape (1, tokens) themselves, which stands for no row.
    """
    import inspect

    known = inspect.signature(_inner(model).forward).parameters
    given = {"input_ids": ids, "attention_mask": mask}
    if "position_ids" in known and not _own_positions(model):
        given["position_ids"] = torch.arange(ids.shape[1], device=ids.device).repeat(len(ids), 1)
    if "token_type_ids" in known and getattr(model.config, "type_vocab_size", None):
        given["token_type_ids"] = torch.zeros_like(ids)
    return given | ({"use_cache": False} if "use_cache" in known else {})


def _inner(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _own_positions(model: Any) -> bool:
    """Say whether a model counts its positions from the ids, so that they have rows already (RoBERTa)."""
    return str(model.config.model_type) in {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl"}


def _make_ready(model: Any, clipping: Clipping) -> None:
    """Switch off what per-row gradients cannot have: dropout's draws, shared weights, embeddings without rows."""
    for module in model.modules():
        if module.__class__.__name__ == "Dropout":
            module.p = 0.0
    model.train()
    import inspect

    if "position_ids" not in inspect.signature(_inner(model).forward).parameters:
        for name, parameter in model.named_parameters():
            if "position_embeddings" in name:
                parameter.requires_grad_(False)
    if clipping == "ghost":
        _untie(model)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("method.tune: no weight of this model can be trained")


def _untie(model: Any) -> None:
    """Give the head weights of its own where it shares the embeddings': ghost norms of shared weights are wrong."""
    head, words = model.get_output_embeddings(), model.get_input_embeddings()
    if head is not None and words is not None and head.weight is words.weight and head.weight.requires_grad:
        head.weight = type(head.weight)(words.weight.detach().clone())
        model.config.tie_word_embeddings = False


def _wrapped(model: Any, recipe: Recipe) -> Any:
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping

    if recipe.clipping == "ghost":
        clip = recipe.training.clip
        return GradSampleModuleFastGradientClipping(model, loss_reduction="sum", max_grad_norm=clip, strict=True)
    return GradSampleModule(model, loss_reduction="sum", strict=True)


@contextmanager
def _quiet() -> Iterator[None]:
    # What libraries warn of here may quote shapes of private batches.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
