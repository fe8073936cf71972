"""The configuration of WASP (Zou et al. 2025, Algorithm 1)."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from flows.config.base import RunConfig
from flows.config.method import Asks, Method, refuse_density
from flows.config.privacy import Calibration


class WaspConfig(RunConfig):
    """Everything that one WASP run needs."""

    flow_name: ClassVar[str] = "wasp"

    method: Method = Field(Method(), description="WASP's own settings (Algorithm 1).")

    @model_validator(mode="after")
    def _counted_in_one_place(self) -> Self:
        if self.parties is not None and self.method.weights_from == "counts":
            raise ValueError("method.weights_from is 'counts', which several parties do not count; write votes")
        return self

    @model_validator(mode="after")
    def _density_can_be_released(self) -> Self:
        if self.method.density is not None:
            joined = self.privacy.joined_by if self.privacy.protects == "person" else "mean"
            refuse_density(self.method.guidance, self.parties is not None, self.privacy.calibration, joined)
        return self

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """The paper's noise counts no first choices, and is for votes."""
        paper = self.method.weights_from == "votes" and self.method.density is None
        return ("tight", "paper") if paper else ("tight",)

    @property
    def asks(self) -> list[Asks]:
        """The first round without examples, the others with S of them."""
        return self.method.asks_of(self.writers, self.method.examples)
