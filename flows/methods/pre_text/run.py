"""A PrE-Text run: the jobs of its steps."""

from __future__ import annotations

from flows.methods.evolution import EvolutionRun
from flows.methods.pre_text.config import PreTextConfig
from tasks.core.refs import Written
from tasks.selection.survivors import Survival
from tasks.steps.generate import WriteJob
from tasks.text.variation import Manner


class PreTextRun(EvolutionRun):
    """A PrE-Text run and the jobs of its steps."""

    config: PreTextConfig

    @property
    def examples_per_prompt(self) -> int:
        """Number of survivors in a prompt of the expansion, none of them a bad example."""
        return self.config.method.examples

    @property
    def looks_ahead(self) -> int:
        """Number of look-ahead variations."""
        return self.config.method.look_ahead

    @property
    def variation(self) -> Manner:
        """Fill masks; the prompts of the filler do not name the class."""
        method = self.config.method
        return Manner(disclose=False, way="blanks", mask=method.mask, rounds=method.mask_rounds)

    def texts_after(self, iteration: int) -> int:
        """Return the population size at first, and the total in the expansion."""
        return self.config.method.population if iteration == 0 else self.config.method.samples

    def survival(self) -> Survival:
        """Return survivors drawn with replacement, as many as the population."""
        method = self.config.method
        return Survival(self.balanced(method.population), "draw", method.threshold, self.config.execution.seed)

    def variers(self, table: Written) -> tuple[str, ...]:  # noqa: ARG002  (it varies every table)
        """Return the filler."""
        return (self.config.filler.name,)

    def is_voted_on(self, iteration: int) -> bool:
        """Return True for every population."""
        return iteration < self.iterations

    @property
    def needed(self) -> dict[str, int]:
        """As many texts of each class as a prompt of the expansion shows."""
        return dict.fromkeys(self.prepared.card.label_names, self.examples_per_prompt)

    def children_jobs(self, iteration: int, survivors: Written) -> list[WriteJob]:
        """Return jobs that vary every survivor as often as it was drawn."""
        return self.vary_jobs(iteration, survivors, 1)
