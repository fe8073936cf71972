"""Typed parameters of the audit: the promise that is attacked, and how often."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field, model_validator

from flows.form import Strict
from flows.params import Calibration, Promise


class AuditConfig(Strict):
    """What one audit attacks: the votes of a run with these numbers. It needs no rows and spends nothing."""

    wasp_config: str | None = Field(
        None,
        description="Configuration file of the flow wasp: its privacy, iterations and votes are audited, in place of "
        "those below.",
    )
    privacy: Promise = Field(Promise(), description="What is promised about the private rows.")
    iterations: int = Field(5, ge=2, le=100, description="Rounds of writing (T). There are T - 1 releases.")
    votes: int = Field(8, ge=1, le=32, description="Nearest and furthest texts that each private row votes for (Q).")
    calibrations: list[Calibration] = Field(
        ["tight", "paper"],
        min_length=1,
        max_length=2,
        json_schema_extra={"uniqueItems": True},
        description="Which noise is audited: tight, the least that keeps epsilon; paper, that of the paper's formula.",
    )
    trials: int = Field(
        1000,
        ge=50,
        le=20_000,
        description="Runs with and as many without the record that is looked for. More trials prove more.",
    )
    confidence: float = Field(
        0.999, ge=0.9, lt=1, description="Of each lower bound: how sure it is that epsilon is at least that."
    )

    @model_validator(mode="after")
    def _one_promise(self) -> Self:
        if len(set(self.calibrations)) < len(self.calibrations):
            raise ValueError("calibrations: each of tight and paper at most once")
        if math.isinf(self.privacy.epsilon):
            raise ValueError("privacy.epsilon is infinite: that promises nothing, so there is nothing to audit")
        usual = [(name, type(self).model_fields[name].default) for name in ("privacy", "iterations", "votes")]
        changed = [name for name, default in usual if getattr(self, name) != default]
        if self.wasp_config is not None and changed:
            raise ValueError(f"wasp_config names the file whose numbers are audited; leave out {', '.join(changed)}")
        return self
