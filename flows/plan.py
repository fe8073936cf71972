"""What a run will ask and spend, from its configuration alone."""

from __future__ import annotations

import math
from typing import Any

from flows.params import WaspConfig
from tasks.accounting import Noise
from tasks.prompts import TaskCard, contrastive, zero_shot

CHARACTERS_PER_TOKEN = 4.0
EXAMPLE_CHARACTERS = 160


def plan_of(config: WaspConfig, card: TaskCard, noise: Noise) -> dict[str, Any]:
    """Return sigma, epsilon stated and exact, releases, calls and tokens; nothing is opened or asked.

    Tokens are estimated at four characters each, with examples of 160 characters; answers at most `max_tokens`.
    """
    method = config.method
    first = method.samples // method.iterations
    later = method.samples - first
    tokens_in = round(first * _tokens(card, 0) + later * _tokens(card, method.examples))
    tokens_out = method.samples * card.max_tokens
    return {
        "task": card.name,
        "models": [plm.name for plm in config.plms],
        "iterations": method.iterations,
        "samples": method.samples,
        "calls": method.samples,
        "tokens_in": tokens_in,
        "tokens_out_at_most": tokens_out,
        "dollars_at_most": _dollars(config, tokens_in, tokens_out),
        "max_dollars": config.limits.max_dollars,
        "releases": noise.releases,
        "sensitivity": noise.sensitivity,
        "calibration": noise.calibration,
        "sigma": noise.sigma,
        "noise_multiplier": noise.noise_multiplier,
        "epsilon_stated": _finite(noise.epsilon_stated),
        "epsilon_exact": _finite(noise.epsilon_exact),
        "delta": noise.delta,
        "adjacency": noise.privacy.adjacency,
        "private": not noise.non_private,
        "other_calibration": _other(config),
    }


def _dollars(config: WaspConfig, tokens_in: int, tokens_out: int) -> float:
    """Return what equal shares of all models cost; a model without a price counts as free."""
    prices = [plm.price for plm in config.plms]
    shares = [(tokens_in * p.input + tokens_out * p.output) / 1e6 / len(prices) for p in prices if p is not None]
    halved = [plm.batch_api for plm in config.plms if plm.price is not None]
    return sum(share / 2 if half else share for share, half in zip(shares, halved, strict=True))


def _tokens(card: TaskCard, examples: int) -> float:
    label = card.label_names[0]
    filler = "x" * EXAMPLE_CHARACTERS
    bad = (filler,) * (examples // 2)
    good = (filler,) * (examples - examples // 2)
    prompt = contrastive(card, label, "", good, bad, 0) if examples else zero_shot(card, label, "", 0)
    return len(prompt.text) / CHARACTERS_PER_TOKEN


def _other(config: WaspConfig) -> dict[str, Any]:
    from flows.prepare import make_noise

    other = "paper" if config.privacy.calibration == "tight" else "tight"
    changed = config.model_copy(update={"privacy": config.privacy.model_copy(update={"calibration": other})})
    noise = make_noise(changed)
    return {
        "calibration": other,
        "sigma": noise.sigma,
        "epsilon_stated": _finite(noise.epsilon_stated),
        "epsilon_exact": _finite(noise.epsilon_exact),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
