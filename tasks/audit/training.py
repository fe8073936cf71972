"""Attack on one training by DP-SGD with many canaries (Steinke, Nasr and Jagielski 2023).

A fair coin decides for each canary whether it takes part. The attacker sees the noisy sum of gradients of every step,
as the accountant assumes, and guesses coins. Each canary has a weight row of its own: its gradient is longer than the
clipping norm and meets no other gradient, so nothing but the noise hides it. The weight rows of absent canaries contain
noise only, which is compared with the planned noise.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.progress import Advance
from tasks.accounting.dp_sgd import TrainingNoise
from tasks.audit.attacks import Attack
from tasks.audit.bounds import CONFIDENCE, Finding, check_number, freshness, one_run_bound, right_guesses
from tasks.private.training.dp_train import EncodedRows, train_privately
from tasks.private.training.progress import StepsTaken
from tasks.students.loop import import_torch
from tasks.students.recipe import Recipe

Floats = NDArray[np.float64]

GUESSED: Final = (0.2, 0.9)
"""Parts of the canaries whose coins are guessed, fixed in advance; half of each are the highest scores. Few guesses
prove most where noise hides canaries, many where it hides none; about half of all canaries take part, not exactly."""

STEEP: Final = 1e3
"""Factor of the logits: every gradient is longer than the clipping norm."""

TINY_RATE: Final = 1e-12
"""Learning rate: the model must not move, or gradients would change."""

STANDARD_ERRORS: Final = 6.0
"""Accepted shortfall of the measured noise, in standard errors; by chance one audit in 10^9 exceeds it."""

AT_ONCE: Final = 64

Train = Callable[[Any, EncodedRows, Recipe, StepsTaken], int]
"""A training of a model on rows."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingAttack(Attack):
    """The attack on a training by DP-SGD; all data is synthetic: no private row is opened.

    `noise`: the claim, with rate, steps and clipping norm.
    """

    noise: TrainingNoise
    train: Train = train_privately

    def findings(
        self, trials: int = 1000, confidence: float = CONFIDENCE, advance: Advance = lambda _: None
    ) -> list[Finding]:
        """Attack one training of `2 * trials` canaries; return findings on its strength, its noise and its steps."""
        noise, canaries = self.noise, 2 * trials
        included = np.frombuffer(os.urandom(canaries), dtype=np.uint8) % 2 == 1
        seen = observe_training(noise, np.flatnonzero(included), canaries, self.train)
        scores, doubt = seen.sum(axis=0)[:, 0], (1 - confidence) / len(GUESSED)
        strengths = [guess_coins(scores, included, share, noise, 1 - doubt) for share in GUESSED]
        advance(canaries)
        return [*strengths, check_size(seen, included, noise), check_number(len(seen), noise.training.steps)]


def guess_coins(
    scores: Floats, included: NDArray[np.bool_], share: float, noise: TrainingNoise, confidence: float
) -> Finding:
    """Guess the coins of a share of the canaries: the highest scores took part, the lowest did not."""
    canaries = len(scores)
    guesses = 2 * round(share * canaries / 2)
    correct = right_guesses(scores, included, guesses)
    bound = one_run_bound(canaries, guesses, correct, noise.delta, confidence)
    claimed, name = noise.epsilon_exact, f"who took part, by all steps, {share:.0%} guessed"
    remark = f"{correct} of {guesses} guesses about {canaries} canaries in one training are right"
    return Finding(name, claimed, bound, bound <= claimed, remark, "epsilon")


def observe_training(noise: TrainingNoise, present: NDArray[np.int64], canaries: int, train: Train) -> Floats:
    """Return the noisy sums along each canary's gradient, and across it, in every step.

    Shape (steps, canaries, 2), in units of a gradient. `present`: the canaries that take part.
    """
    torch, plan = import_torch(), noise.training
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    model = _model(torch, canaries)
    ids = present.astype(np.int64)[:, None]
    rows = EncodedRows(ids, np.ones_like(ids), np.zeros(len(ids), dtype=np.int64))
    recipe = Recipe(plan, noise.noise_multiplier, TINY_RATE, "hooks", rows_at_once=AT_ONCE)
    seen: list[Floats] = []

    def record(optimizer: Any, *_: Any) -> None:
        weight = model.table.weight
        if any(parameter is weight for group in optimizer.param_groups for parameter in group["params"]):
            seen.append(weight.grad.detach().double().cpu().numpy().copy())

    handle = register_optimizer_step_pre_hook(record)
    try:
        train(model, rows, recipe, StepsTaken.start(_memory_store(), "audit", "audit"))
    finally:
        handle.remove()
    gradients = np.stack(seen) * plan.batch_rows
    along, across = np.array([-1.0, 1.0]) / math.sqrt(2), np.array([1.0, 1.0]) / math.sqrt(2)
    return np.stack([gradients @ along, gradients @ across], axis=2)


def check_size(seen: Floats, included: NDArray[np.bool_], noise: TrainingNoise) -> Finding:
    """Compare noise and gradients in `seen` (steps, canaries, 2) with the plan.

    The noise of absent canaries is at least as large as planned and fresh in every step; the estimate of sigma from n
    numbers has a relative standard error of 1 / sqrt(2 n). A present canary moves a sum by C with probability q, hence
    by q C on average: more means that gradients are not clipped.
    """
    plan, noises = noise.training, seen[:, ~included]
    measured = math.sqrt(float((noises**2).mean())) / noise.sigma
    error = 1 / math.sqrt(2 * noises.size)
    moved = float(seen[:, included, 0].mean()) / plan.clip
    spread = (noise.noise_multiplier + 1) / math.sqrt(max(seen[:, included, 0].size, 1))
    fresh = freshness(noises.transpose(1, 0, 2)[:, :, :1])
    is_planned = measured >= 1 - STANDARD_ERRORS * error and moved <= plan.sample_rate + STANDARD_ERRORS * spread
    remark = f"noise is {measured:.4f} times the planned size, standard error {error:.4f}; a canary moves a sum by "
    remark += f"{moved:.4f} clipping norms on average, {plan.sample_rate:.4f} are planned; {fresh.remark}"
    return Finding("noise is fresh", 0.0, 0.0, fresh.passed and is_planned, remark)


def _memory_store() -> Any:
    """Return a store for the private arrays of a training in memory."""
    arrays: dict[str, Mapping[str, NDArray[Any]]] = {}
    return SimpleNamespace(write_private_arrays=arrays.__setitem__, read_private_arrays=arrays.get)


def _model(torch: Any, canaries: int) -> Any:
    """Return a classifier of two classes with a weight row for each canary."""

    class Table(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.config = SimpleNamespace(model_type="table", type_vocab_size=0)
            self.table = torch.nn.Embedding(canaries, 2)
            torch.nn.init.zeros_(self.table.weight)

        def forward(self, input_ids: Any, attention_mask: Any, use_cache: bool = False) -> Any:  # noqa: ARG002
            return SimpleNamespace(logits=STEEP * self.table(input_ids[:, 0]))

    return Table()
