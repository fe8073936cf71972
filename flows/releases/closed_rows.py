"""Private rows that `method.guidance: auto` keeps closed, and the decision in numbers for every plan under `auto`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from flows.engine.method import Release, ReleaseOutcome, ReleasePlan
from tasks.accounting.composition import gaussian_sigma
from tasks.density.opening import CLOSED, opening_index, remedies

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.methods.wasp.config import WaspConfig
    from tasks.accounting.votes import Noise
    from tasks.text.prompts import TaskCard

MOST_EPSILON = 64.0
"""Largest epsilon that a plan suggests."""


@dataclass(frozen=True, slots=True)
class ClosedRows(Release):
    """A decision against any release: no private row is opened and no budget is spent.

    `noise`: the noise that a release would have had.
    """

    config: WaspConfig
    noise: Noise
    name: ClassVar[str] = "closed"

    def charges(self) -> tuple[Charge, ...]:
        """Return no charge."""
        return ()

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return the reason and the changes that would open the rows."""
        decision = opening_values(self.config, self.noise.sigma)
        return ReleasePlan({"opening": decision}, (*opening_lines(decision), *remedy_lines(self.config, self.noise)))

    def outcome(self) -> ReleaseOutcome:
        """Return the decision as a sentence."""
        index = opening_values(self.config, self.noise.sigma)["index"]
        return ReleaseOutcome(
            kind="closed", text=f"nothing: the private rows stayed closed (opening index {index:.1f} < {CLOSED:g})"
        )


def opening_values(config: WaspConfig, sigma: float) -> dict[str, Any]:
    """Return the public numbers behind the decision of `auto`, for the JSON of a plan; index None without noise."""
    index = opening_index(config.declared_rows, config.classes, sigma)
    return {
        "rows": config.declared_rows,
        "classes": config.classes,
        "sigma": sigma,
        "index": index if math.isfinite(index) else None,
        "map": config.opening,
    }


def opening_lines(decision: dict[str, Any]) -> list[str]:
    """Return the decision of `auto` as a line of a plan."""
    if decision["index"] is None:
        return ["opening       no noise: the density of whole vectors"]
    choices = {
        "none": f"below {CLOSED:g}: the private rows stay closed, no budget is used",
        "cosine": f"at least {CLOSED:g}: the density of whole vectors",
    }
    return [
        f"opening       index {decision['index']:.1f} = {decision['rows']} rows / ({decision['classes']} classes x "
        f"sigma {decision['sigma']:.2f}), {choices[decision['map']]}"
    ]


def remedy_lines(config: WaspConfig, noise: Noise) -> list[str]:
    """Return the single changes that would open the rows."""
    change = remedies(config.declared_rows, config.classes, noise.sigma)
    epsilon = least_epsilon(config.privacy.epsilon, noise.delta, noise.sensitivity, change.sigma)
    ways = [
        f"{change.rows} rows",
        *([f"at most {change.classes} classes"] if change.classes else []),
        *([f"privacy.epsilon {epsilon:g}"] if epsilon else []),
    ]
    return [f"              to open them: {', or '.join(ways)}. Or set method.guidance explicitly"]


def least_epsilon(start: float, delta: float, sensitivity: float, sigma: float) -> float | None:
    """Return the least epsilon above `start` with a noise of at most `sigma`, rounded up to a tenth; None above 64."""
    tenths = math.floor(start * 10) + 1
    while tenths <= 10 * MOST_EPSILON:
        if gaussian_sigma(tenths / 10, delta, sensitivity) * (1 + 1e-5) <= sigma:
            return tenths / 10
        tenths += 1 if tenths < 100 else 10
    return None
