"""The configuration of WASP (Zou et al. 2025, Algorithm 1)."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from flows.config.base import RunConfig
from flows.config.method import Asks, WaspMethod, refuse_density
from flows.config.privacy import Calibration


class WaspConfig(RunConfig):
    """Configuration of a WASP run."""

    flow_name: ClassVar[str] = "wasp"

    method: WaspMethod = Field(WaspMethod(), description="Settings of WASP (Algorithm 1).")

    @model_validator(mode="after")
    def _refuse_counts_of_parties(self) -> Self:
        if self.parties is not None and self.method.weights_from == "counts":
            raise ValueError("method.weights_from is 'counts', which does not support several parties. Set it to votes")
        return self

    @model_validator(mode="after")
    def _check_density(self) -> Self:
        if self.method.density is not None:
            joined = self.privacy.joined_by if self.privacy.protects == "person" else "mean"
            refuse_density(self.method.guidance, self.parties is not None, self.privacy.calibration, joined)
        return self

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Possible values of `privacy.calibration`; the paper's noise covers votes only."""
        paper = self.method.weights_from == "votes" and self.method.density is None
        return ("tight", "paper") if paper else ("tight",)

    @property
    def asks(self) -> list[Asks]:
        """Planned calls: the first iteration without examples, later ones with S examples per prompt."""
        return self.method.asks_of(self.writers, self.method.examples)
