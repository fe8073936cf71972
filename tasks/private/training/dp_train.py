"""Trains a transformer (language model or classifier) on private rows by DP-SGD.

Abadi et al. 2016, Algorithm 1, with the per-row gradients of Opacus. `hooks` stores one gradient per row; `ghost` (Li
et al. 2022, Section 4) stores only its norm and runs two backward passes, with little more memory than plain training.
Sampling and noise come from `entropy`, because the secure mode of Opacus cannot be installed and its other mode is
reproducible from a seed. Losses, norms and batch sizes do not leave this file: they are functions of the private rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError
from tasks.private.noise.entropy import gaussian, poisson_sample
from tasks.private.rows.quarantine import Unprintable
from tasks.private.training.progress import StepsTaken
from tasks.private.training.promise import Clipping, require_opacus
from tasks.private.training.recipe import Recipe
from tasks.students.loop import import_torch

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor
    from torch.nn import Module

CLIP_MARGIN = 1 - 1e-6
"""Rows are clipped to this part of C; the rest covers the rounding of norms and sums with `hooks`.

Let u = 2^-53, g_i the float32 gradient of row i in d weights, and n the rows of a step.

- The norm adds d squares in float64: it is at least (1 - d u) |g_i| up to second order (Higham 2002, Section 3.1), so a
  row is cut to at most C (1 - 1e-6) (1 + (d + 3) u), with 3 u for quotient, square root and product.
- The n cut rows are added one after the other in float64. Without one of them, the rounded sum moves by that row and by
  the errors of two sums, each at most n u (|g_1| + ... + |g_n|) <= n^2 u C.

The sum therefore moves by at most C (1 - 1e-6 + (d + 3) u + 2 n^2 u) <= C for up to d = 10^9 weights and n = 60,000
rows: 1.2e-7 + 8e-7 < 1e-6.

Not covered: a gradient in float32 may differ in its last digits with the rows that are processed beside it (not with
`rows_at_once` 1 of `Recipe`), and `ghost` never has g_i: its norms and sums are float32.
"""

IGNORED = -100
"""A target that is not learned: padding, and the control text before a row's text."""


@dataclass(frozen=True, slots=True, repr=False)
class EncodedRows(Unprintable):
    """Private rows as numbers, each encoded independently to the same length. The repr shows nothing.

    `ids`, `mask`: int64, shape (rows, tokens). `targets`: int64; shape (rows, tokens) for a language model (the ids to
    learn, IGNORED elsewhere), shape (rows,) for a classifier.
    """

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    targets: NDArray[np.int64]


def train_privately(
    model: Module,
    rows: EncodedRows,
    recipe: Recipe,
    taken: StepsTaken,
    advance: Callable[[int], None] = lambda _: None,
) -> int:
    """Train `model` in place for all planned steps; return the steps in its weights.

    Resumes from the checkpoint of `taken`. In each step every row is drawn independently with probability q, its
    gradient is clipped to the norm C, noise of sigma C is added to the sum, and the sum is divided by the declared mean
    batch size, never by the number of drawn rows. A step that draws no row is noise only. `advance(1)` follows every
    step.
    """
    plan = recipe.training.steps
    # Warnings of libraries may quote shapes of private batches.
    with warnings.catch_warnings(action="ignore"):
        stepper = _Stepper(model, rows, recipe)
        checkpoint = taken.checkpoint()
        done = 0
        if checkpoint is not None:
            done = stepper.load(checkpoint)
        elif taken.begun:
            taken.save_checkpoint(stepper.state(), done)
        advance(taken.begun)
        while taken.begun < plan:
            # Counted before it is taken: a crash in between loses a step that is paid for, and never repeats one.
            taken.begin()
            stepper.step()
            done += 1
            if done % recipe.checkpoint_every == 0 or taken.begun == plan:
                taken.save_checkpoint(stepper.state(), done)
            advance(1)
        stepper.close()
    return done


class _Stepper:
    """Optimizer steps on one model."""

    def __init__(self, model: Module, rows: EncodedRows, recipe: Recipe) -> None:
        require_opacus()
        torch = import_torch()
        self.torch = torch
        self.rows = rows
        self.recipe = recipe
        self.device = next(model.parameters()).device
        _make_ready(model, recipe.clipping)
        self.wrapped = _wrapped(model, recipe)
        self.model = model
        self.parameters = {
            name: value for name, value in model.named_parameters() if value.requires_grad
        }
        self.optimizer = torch.optim.Adam(self.parameters.values(), lr=recipe.learning_rate)
        self.sums = {
            name: torch.zeros_like(value, dtype=torch.float64)
            for name, value in self.parameters.items()
        }

    def step(self) -> None:
        """Sample rows, sum their clipped gradients, add noise, update the weights."""
        plan = self.recipe.training
        chosen = poisson_sample(len(self.rows.ids), plan.sample_rate)
        for start in range(0, len(chosen), self.recipe.rows_at_once):
            self._add(chosen[start : start + self.recipe.rows_at_once])
        # The declared mean batch, not len(chosen): the number of drawn rows is private.
        for name, parameter in self.parameters.items():
            parameter.grad = (self._noisy(self.sums[name]) / plan.batch_rows).to(parameter.dtype)
            self.sums[name].zero_()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the weights and the optimizer state as arrays."""
        arrays = {
            f"weight {name}": value.detach().cpu().numpy()
            for name, value in self.parameters.items()
        }
        for name, value in self.parameters.items():
            for kind, moment in self.optimizer.state.get(value, {}).items():
                arrays[f"{kind} {name}"] = moment.detach().cpu().numpy()
        return arrays

    def load(self, checkpoint: tuple[dict[str, NDArray[Any]], int]) -> int:
        """Restore the arrays of `state`; return the number of steps in them."""
        arrays, done = checkpoint
        tensors = {key: self.torch.from_numpy(value.copy()) for key, value in arrays.items()}
        with self.torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"weight {name}"])
                moments = {
                    key: tensors[f"{key} {name}"] for key in ADAM if f"{key} {name}" in tensors
                }
                # Adam keeps its number of steps on the CPU.
                for key in moments.keys() - {"step"}:
                    moments[key] = moments[key].to(self.device)
                if moments:
                    self.optimizer.state[parameter] = moments
        return done

    def close(self) -> None:
        """Remove the hooks from the model."""
        if hasattr(self.wrapped, "cleanup"):
            self.wrapped.cleanup()
        else:
            self.wrapped.remove_hooks()
        for parameter in self.model.parameters():
            for name in ("grad_sample", "_norm_sample", "summed_grad"):
                if hasattr(parameter, name):
                    delattr(parameter, name)
            parameter.grad = None

    def _add(self, chosen: NDArray[np.int64]) -> None:
        """Add the clipped gradients of the chosen rows to the sums.

        A row whose gradient is not finite adds nothing.
        """
        losses = self._losses(chosen)
        if self.recipe.clipping == "ghost":
            self._add_ghost(chosen, losses)
        else:
            losses.sum().backward()
            factors, finite = self._factors(self._row_norms())
            finite_rows = list(
                zip(finite.nonzero().flatten().tolist(), factors.tolist(), strict=True)
            )
            for name, sample in self._of_rows("grad_sample").items():
                for row, factor in finite_rows:
                    self.sums[name].add_(sample[row].double(), alpha=factor)
                self.parameters[name].grad_sample = None
        # `.grad` has the sum without clipping now; the optimizer must never see it.
        self.optimizer.zero_grad(set_to_none=True)

    def _add_ghost(self, chosen: NDArray[np.int64], losses: Tensor) -> None:
        """Add clipped gradients in two backward passes; the second has the finite rows only."""
        losses.sum().backward(retain_graph=True)
        factors, finite = self._factors(self._row_norms())
        for parameter in self.parameters.values():
            parameter._norm_sample = None
        self.optimizer.zero_grad(set_to_none=True)
        self.wrapped.disable_hooks()
        # Zero times a gradient that is not finite is not zero, so these rows leave the second pass.
        if not bool(finite.all()):
            losses = self._losses(chosen[finite.cpu().numpy()])
        if len(losses):
            (factors * losses).sum().backward()
        self.wrapped.enable_hooks()
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                self.sums[name] += parameter.grad

    def _factors(self, norms: Tensor) -> tuple[Tensor, Tensor]:
        """Return the clipping factors of the rows with a finite gradient, and the mask of these rows."""
        finite = self.torch.isfinite(norms)
        most = self.recipe.training.clip * CLIP_MARGIN
        # 1e-6 allows a norm of zero; it only makes a gradient shorter.
        return (most / (norms[finite] + 1e-6)).clamp(max=1.0), finite

    def _row_norms(self) -> Tensor:
        """Return the norm of each row's gradient.

        With `hooks` in float64: in float32, millions of squares add up to too little.
        """
        norm = self.torch.linalg.vector_norm
        double = self.torch.float64
        if self.recipe.clipping == "ghost":
            return self.torch.stack(list(self._of_rows("_norm_sample").values())).norm(2, dim=0)
        samples = self._of_rows("grad_sample").values()
        per_weight = [
            self.torch.stack([norm(row, dtype=double) for row in sample]) for sample in samples
        ]
        return norm(self.torch.stack(per_weight, dim=1), dim=1)

    def _of_rows(self, attribute: str) -> dict[str, Tensor]:
        """Return what Opacus measured of every row after a backward pass, by weight.

        A weight without a gradient is left out: the loss does not depend on it (some models have unused layers). Raises
        ConfigError for a weight with a gradient of all rows together but of none alone, which could not be clipped.
        """
        samples = {}
        for name, parameter in self.parameters.items():
            sample = getattr(parameter, attribute, None)
            if sample is not None:
                samples[name] = sample
            elif parameter.grad is not None:
                raise ConfigError(
                    f"method: the gradient of single rows cannot be measured for the weight '{name}' of this model, so "
                    "it cannot be trained by DP-SGD. Choose another model."
                )
        return samples

    def _noisy(self, total: Tensor) -> Tensor:
        sigma = self.recipe.noise_multiplier * self.recipe.training.clip
        # Only in a run that is marked NOT PRIVATE; see `Recipe`.
        if sigma == 0:
            return total.clone()
        noise = self.torch.from_numpy(gaussian(total.numel(), sigma)).view(total.shape)
        # Double precision: otherwise the low digits of the sum would be visible despite the noise.
        return (total.cpu() + noise).to(total.device)

    def _losses(self, chosen: NDArray[np.int64]) -> Tensor:
        """Return one loss per row, shape (rows,)."""
        inputs = [
            self.torch.from_numpy(part[chosen]).to(self.device)
            for part in (self.rows.ids, self.rows.mask)
        ]
        targets = self.torch.from_numpy(self.rows.targets[chosen]).to(self.device)
        logits = self.wrapped(**_inputs(self.torch, self.model, *inputs)).logits.float()
        loss = self.torch.nn.functional.cross_entropy
        if targets.dim() == 1:
            return loss(logits, targets, reduction="none")
        shifted = targets[:, 1:]
        losses = loss(
            logits[:, :-1].transpose(1, 2), shifted, reduction="none", ignore_index=IGNORED
        )
        return losses.sum(dim=1) / (shifted != IGNORED).sum(dim=1).clamp(min=1)


ADAM = ("step", "exp_avg", "exp_avg_sq")
"""Keys of the optimizer state of a weight."""


def _inputs(torch: ModuleType, model: Module, ids: Tensor, mask: Tensor) -> dict[str, object]:
    """Return a model's arguments, with one line of positions and types per row.

    Per-row gradients need them; many models would create them with shape (1, tokens).
    """
    import inspect

    signature = inspect.signature(_inner(model).forward).parameters
    arguments: dict[str, object] = {"input_ids": ids, "attention_mask": mask}
    if "position_ids" in signature and not _own_positions(model):
        arguments["position_ids"] = torch.arange(ids.shape[1], device=ids.device).repeat(
            len(ids), 1
        )
    if "token_type_ids" in signature and getattr(model.config, "type_vocab_size", None):
        arguments["token_type_ids"] = torch.zeros_like(ids)
    if "use_cache" in signature:
        arguments["use_cache"] = False
    return arguments


def _inner(model: Module) -> Module:
    # An adapter passes any arguments on; those that the model knows are in the signature of the model inside.
    if hasattr(model, "get_base_model"):
        return model.get_base_model()
    return model


def _own_positions(model: Module) -> bool:
    """Return whether a model derives per-row positions from the ids (RoBERTa)."""
    return str(model.config.model_type) in {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl"}


def _make_ready(model: Module, clipping: Clipping) -> None:
    """Disable features incompatible with per-row gradients.

    These are dropout, shared weights (ghost clipping) and position embeddings without a line per row.
    """
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
        raise ConfigError("method.tune: this model has no trainable weight; choose another model")


def _untie(model: Module) -> None:
    """Give the head its own weights: ghost norms of shared weights are wrong."""
    head = model.get_output_embeddings()
    embeddings = model.get_input_embeddings()
    if (
        head is not None
        and embeddings is not None
        and head.weight is embeddings.weight
        and head.weight.requires_grad
    ):
        head.weight = type(head.weight)(embeddings.weight.detach().clone())
        model.config.tie_word_embeddings = False


def _wrapped(model: Module, recipe: Recipe) -> Module:
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
        GradSampleModuleFastGradientClipping,
    )

    # "sum", as the losses are added: for a mean, Opacus multiplies each gradient by the number of rows.
    if recipe.clipping == "ghost":
        clip = recipe.training.clip
        return GradSampleModuleFastGradientClipping(
            model, loss_reduction="sum", max_grad_norm=clip, strict=True
        )
    return GradSampleModule(model, loss_reduction="sum", strict=True)
