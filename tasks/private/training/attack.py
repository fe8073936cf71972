"""Attack on one training by DP-SGD with many canaries (Steinke, Nasr and Jagielski 2023).

A fair coin decides for each canary whether it takes part. The attacker sees the noisy sum of gradients of every step,
as the accountant assumes, and guesses coins. Each canary has a weight row of its own: its gradient is longer than the
clipping norm and meets no other gradient, so nothing but the noise hides it. The weight rows of absent canaries contain
noise only, which is compared with the planned noise.

The training is that of the run: its recipe, the payment, and the function that reads the rows and trains. Only the
model is the attack's own (`tasks/private/training/attack_models.py`).
"""

import math
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.progress import Advance
from tasks.attacks.attack import Attack
from tasks.attacks.bounds import (
    CONFIDENCE,
    Finding,
    check_number,
    freshness,
    one_run_bound,
    right_guesses,
)
from tasks.private.training.attack_models import CLASSES, in_a_head, in_a_table, save_model
from tasks.private.training.promise import TrainingNoise
from tasks.private.training.recipe import ClassifySpec, PaidTraining, Trained, TuneSpec
from tasks.private.training.tuned_classifier import train_classifier
from tasks.private.training.tuned_writer import pay, train_writer
from tasks.students.loop import import_torch
from tasks.students.spec import StudentSpec

Floats = NDArray[np.float64]

GUESSED: Final = (0.2, 0.9)
"""Parts of the canaries whose coins are guessed, fixed in advance; half of each are the highest scores. Few guesses
prove most where noise hides canaries, many where it hides none; about half of all canaries take part, not exactly."""

SEED: Final = 0
"""Seed of first weights; neither noise nor sampling depends on it."""

TINY_RATE: Final = 1e-12
"""Learning rate: the model must not move, or gradients would change."""

STANDARD_ERRORS: Final = 6.0
"""Accepted shortfall of the measured noise, in standard errors; by chance one audit in 10^9 exceeds it."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingAttack(Attack):
    """The attack on a training by DP-SGD; all data is synthetic: no private row is opened.

    `noise`: the claim, with rate, steps and clipping norm. `paid`: the training as a run pays for it. `trained`: what
    is trained.
    """

    noise: TrainingNoise
    paid: PaidTraining
    trained: Trained

    def findings(
        self, trials: int = 1000, confidence: float = CONFIDENCE, advance: Advance = lambda _: None
    ) -> list[Finding]:
        """Attack one training of `2 * trials` canaries; return findings on its strength, its noise and its steps."""
        noise = self.noise
        canaries = 2 * trials
        # Coins of the operating system: whoever knows a seed would guess all of them.
        included = np.frombuffer(os.urandom(canaries), dtype=np.uint8) % 2 == 1
        seen = self._observe(np.flatnonzero(included), canaries)
        scores = seen.sum(axis=0)[:, 0]
        # Each share of guesses is a separate test; together they keep the confidence.
        doubt = (1 - confidence) / len(GUESSED)
        strengths = [guess_coins(scores, included, share, noise, 1 - doubt) for share in GUESSED]
        advance(canaries)
        return [
            *strengths,
            check_size(seen, included, noise),
            check_number(len(seen), noise.training.steps),
        ]

    def _observe(self, present: NDArray[np.int64], canaries: int) -> Floats:
        """Return the noisy sums along each canary's gradient, and across it, in every step.

        Shape (steps, canaries, 2), in units of a gradient. `present`: the canaries that take part. The model must not
        move, so the learning rate is the attack's.
        """
        import_torch()
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        seen: list[Floats] = []

        def record(optimizer: Any, *_: Any) -> None:
            for weight in (
                weight for group in optimizer.param_groups for weight in group["params"]
            ):
                if sorted(weight.shape) == [len(CLASSES), canaries]:
                    gradient = weight.grad.detach().double().cpu().numpy()
                    # A table has a row for each canary, a linear head a column.
                    if len(gradient) != canaries:
                        gradient = gradient.T
                    seen.append(gradient.copy())

        # Before each step the optimizer holds what the accountant assumes to be seen: the noisy sum over the batch.
        handle = register_optimizer_step_pre_hook(record)
        try:
            signs = self._train(present, canaries)
        finally:
            handle.remove()
        sums = np.stack(seen) * self.noise.training.batch_rows
        along = np.array([-1.0, 1.0]) / math.sqrt(2)
        across = np.array([1.0, 1.0]) / math.sqrt(2)
        return np.stack([sums @ along * signs, sums @ across], axis=2)

    def _train(self, present: NDArray[np.int64], canaries: int) -> Floats:
        """Pay for the training and train on the present canaries; return the signs of all gradients."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if self.trained == "linear":
                records = in_a_head(present, canaries, SEED)
            else:
                save_model(folder / "base", canaries, is_writer=self.trained == "writer")
                records = in_a_table(present, canaries)
            tools: Any = records.tools.within(folder)
            paid = replace(self.paid, payer=tools.payer, learning_rate=TINY_RATE)
            taken, _ = pay(tools, paid, lambda number: f"audit {number}")
            if self.trained == "writer":
                writer = TuneSpec(
                    paid=paid, plm="audit", controls={CLASSES[0]: ""}, tokens=2, rank=0, seed=SEED
                )
                train_writer(tools, writer, folder / "base", taken, folder / "trained")
            else:
                student = StudentSpec(self.trained, str(folder / "base"), max_length=1, seed=SEED)
                classifier = ClassifySpec(paid=paid, student=student, labels=CLASSES, against=0)
                train_classifier(tools, classifier, None, taken, folder / "trained")
        return records.signs


def guess_coins(
    scores: Floats,
    included: NDArray[np.bool_],
    share: float,
    noise: TrainingNoise,
    confidence: float,
) -> Finding:
    """Guess the coins of a share of the canaries: the highest scores took part, the lowest did not."""
    canaries = len(scores)
    guesses = 2 * round(share * canaries / 2)
    correct = right_guesses(scores, included, guesses)
    bound = one_run_bound(canaries, guesses, correct, noise.delta, confidence)
    claimed = noise.epsilon_exact
    name = f"who took part, by all steps, {share:.0%} guessed"
    remark = f"{correct} of {guesses} guesses about {canaries} canaries in one training are right"
    return Finding(name, claimed, bound, bound <= claimed, remark, "epsilon")


def check_size(seen: Floats, included: NDArray[np.bool_], noise: TrainingNoise) -> Finding:
    """Compare noise and gradients in `seen` (steps, canaries, 2) with the plan.

    The noise of absent canaries is at least as large as planned and fresh in every step; the estimate of sigma from n
    numbers has a relative standard error of 1 / sqrt(2 n). A present canary moves a sum by C with probability q, hence
    by q C on average: more means that gradients are not clipped.
    """
    plan = noise.training
    noises = seen[:, ~included]
    measured = math.sqrt(float((noises**2).mean())) / noise.sigma
    error = 1 / math.sqrt(2 * noises.size)
    moved = float(seen[:, included, 0].mean()) / plan.clip
    spread = (noise.noise_multiplier + 1) / math.sqrt(max(seen[:, included, 0].size, 1))
    fresh = freshness(noises.transpose(1, 0, 2)[:, :, :1])
    is_planned = (
        measured >= 1 - STANDARD_ERRORS * error
        and moved <= plan.sample_rate + STANDARD_ERRORS * spread
    )
    remark = f"noise is {measured:.4f} times the planned size, standard error {error:.4f}; a canary moves a sum by "
    remark += (
        f"{moved:.4f} clipping norms on average, {plan.sample_rate:.4f} are planned; {fresh.remark}"
    )
    return Finding("noise is fresh", 0.0, 0.0, fresh.passed and is_planned, remark)
