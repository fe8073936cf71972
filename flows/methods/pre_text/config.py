"""Configuration of PrE-Text: population, look-ahead votes, masks, and the final expansion."""

from typing import Annotated, ClassVar

from pydantic import Field

from flows.config.base import RunConfig
from flows.config.identity import BY_CONTENT
from flows.config.method import AnyMethod, PlannedCalls, TextsPerPrompt
from flows.config.models import Plm
from tasks.private.votes.promise import Paper


class PreTextMethod(AnyMethod):
    """Method settings of PrE-Text; the defaults for iterations, population and look-ahead are published."""

    iterations: int = Field(
        11, ge=1, le=100, description="Iterations of vote and variation (T), one release each."
    )
    population: int = Field(1024, ge=1, le=10_000_000, description="Candidate texts in each vote.")
    look_ahead: int = Field(
        4,
        ge=0,
        le=64,
        description="Variations whose mean vector represents a text in votes; 0: its own vector.",
    )
    examples: int = Field(
        3, ge=2, le=64, description="Surviving texts in a prompt of the expansion."
    )
    texts_per_prompt: TextsPerPrompt = 1

    @property
    def candidates(self) -> int:
        """Number of texts in a vote: the population."""
        return self.population

    @property
    def starts(self) -> dict[str, int]:
        """Fields with the number of texts that all PLMs and classes share."""
        return {"population": self.population, "samples": self.samples}


class PreTextConfig(RunConfig):
    """Configuration of a PrE-Text run."""

    flow_name: ClassVar[str] = "pre_text"
    paper: ClassVar[Paper] = "pre_text"
    """The published code draws more noise than it accounts for."""

    method: PreTextMethod = PreTextMethod()
    filler: Annotated[Plm, BY_CONTENT] = Field(
        Plm(name="filler", connector="ngram", model="helpdesk"),
        description="The model that varies texts by filling masks: fill_mask (a masked language model of transformers, "
        "hub id or folder), or ngram (embedded). Other connectors get prompts with one blanked text each.",
    )

    @property
    def models(self) -> list[Plm]:
        """The PLMs, then the filler."""
        return [*self.plms, self.filler]

    @property
    def planned_calls(self) -> list[PlannedCalls]:
        """Planned calls: population and expansion by the PLMs, variations and look-ahead by the filler."""
        method = self.method
        varied = method.population * (method.iterations - 1 + method.look_ahead * method.iterations)
        return [
            PlannedCalls(self.writers, method.population),
            PlannedCalls(self.writers, method.samples, method.examples),
            PlannedCalls((self.filler.name,), varied, is_variation=True),
        ]
