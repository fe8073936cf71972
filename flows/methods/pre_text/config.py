"""Typed parameters of PrE-Text: population, votes that look ahead, masks, and the expansion at the end."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from flows.config.base import RunConfig
from flows.config.method import AnyMethod, Asks
from flows.config.models import Plm
from tasks.accounting.sensitivity import Paper


class PreTextMethod(AnyMethod):
    """PrE-Text's own settings. The published ones: 11 iterations, a population of 1024, 4 variations looked ahead."""

    iterations: int = Field(11, ge=1, le=100, description="Rounds of voting and varying (T), each one release.")
    samples: int = Field(
        6000, ge=1, le=10_000_000, description="Synthetic texts in all (N): what the PLMs write in the end."
    )
    population: int = Field(1024, ge=1, le=10_000_000, description="Texts that stand for election in each round.")
    look_ahead: int = Field(
        4, ge=0, le=64, description="Variations of each text whose mean vector is voted on; 0: its own vector."
    )
    mask: float = Field(0.3, gt=0, le=1, description="Share of a text's words that the filler masks at once.")
    mask_rounds: int = Field(2, ge=1, le=100, description="How often a variation is masked and filled in turn.")
    threshold: float = Field(
        1.0, ge=0, le=100, description="What is taken off every count (H), in standard deviations of the noise."
    )
    examples: int = Field(3, ge=2, le=64, description="Surviving texts in a prompt of the expansion.")

    @property
    def candidates(self) -> int:
        """The population."""
        return self.population

    @property
    def starts(self) -> dict[str, int]:
        """Every PLM begins with a share of the population and ends with a share of all texts."""
        return {"population": self.population, "samples": self.samples}


class PreTextConfig(RunConfig):
    """Everything that one run of PrE-Text needs."""

    flow_name: ClassVar[str] = "pre_text"

    method: PreTextMethod = Field(PreTextMethod(), description="PrE-Text's own settings.")
    filler: Plm = Field(
        Plm(name="filler", connector="ngram", model="helpdesk"),
        description="The model that varies texts by filling masks: fill_mask (a masked language model of transformers, "
        "by hub id or folder), or ngram (embedded). Others are asked in words, one text with blanks at a time.",
    )

    @property
    def paper(self) -> Paper:
        """The published code draws more noise than it accounts for."""
        return "pre_text"

    @property
    def models(self) -> list[Plm]:
        """Those that write, then the filler."""
        return [*self.plms, self.filler]

    @property
    def asks(self) -> list[Asks]:
        """The PLMs write the population and expand it; the filler varies it, and looks ahead before every vote."""
        method = self.method
        varied = method.population * (method.iterations - 1 + method.look_ahead * method.iterations)
        return [
            Asks(self.writers, method.population),
            Asks(self.writers, method.samples, method.examples),
            Asks((self.filler.name,), varied, varies=True),
        ]
