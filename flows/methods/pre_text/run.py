"""A run of PrE-Text: what its steps are asked to do."""

from __future__ import annotations

from flows.methods.evolution import EvolutionRun
from flows.methods.pre_text.config import PreTextConfig
from tasks.core.refs import Written
from tasks.selection.survivors import Survival
from tasks.steps.texts import WriteJob
from tasks.text.variation import Manner


class PreTextRun(EvolutionRun):
    """The jobs of one run of PrE-Text."""

    config: PreTextConfig

    @property
    def examples_per_prompt(self) -> int:
        """Survivors in a prompt of the expansion; none of them is a bad example."""
        return self.config.method.examples

    @property
    def looks_ahead(self) -> int:
        """As the configuration says."""
        return self.config.method.look_ahead

    @property
    def variation(self) -> Manner:
        """Masks are filled; the filler is told no class."""
        method = self.config.method
        return Manner(disclose=False, way="blanks", mask=method.mask, rounds=method.mask_rounds)

    def texts_after(self, iteration: int) -> int:
        """The population at first, all texts in the expansion."""
        return self.config.method.population if iteration == 0 else self.config.method.samples

    def survival(self) -> Survival:
        """Draw with replacement, as many texts as the population holds."""
        method = self.config.method
        return Survival(self.balanced(method.population), "draw", method.threshold, self.config.execution.seed)

    def variers(self, one: Written) -> tuple[str, ...]:  # noqa: ARG002  (it varies every table)
        """The filler."""
        return (self.config.filler.name,)

    def is_voted_on(self, iteration: int) -> bool:
        """Every population."""
        return iteration < self.iterations

    @property
    def needed(self) -> dict[str, int]:
        """As many survivors of each class as a prompt of the expansion shows."""
        return dict.fromkeys(self.prepared.card.label_names, self.examples_per_prompt)

    def children_jobs(self, iteration: int, kept: Written) -> list[WriteJob]:
        """Vary every survivor as often as it was drawn."""
        return self.vary_jobs(iteration, kept, 1)
