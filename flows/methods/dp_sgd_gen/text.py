"""What the plan says of a training on private rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def training_lines(value: dict[str, Any], epsilon: Callable[[float | None], str]) -> list[str]:
    """Return what a training on private rows costs, line by line; `epsilon` words one."""
    steps, multiplier = value["training"], value["noise_multiplier"]
    second = steps["epsilon_prv"]
    checked = "" if second is None else f" (a second accountant: {second:.4f})"
    return [
        f"releases      1 model, trained in {steps['steps']} steps; a row takes part in each with chance "
        f"{steps['sample_rate']:.4g}, {steps['batch_rows']} of {steps['declared_rows']} DECLARED rows on average",
        f"protects      one {value['protects']}; its gradient is cut to the L2 norm {steps['clip']:g}",
        f"noise         {multiplier:.4f} times that norm on every weight and step, from the operating system",
        f"epsilon       stated {epsilon(value['epsilon_stated'])}, exact {epsilon(value['epsilon_exact'])}{checked}, "
        f"delta {value['delta']:g} of its own, {value['adjacency']}",
    ]
