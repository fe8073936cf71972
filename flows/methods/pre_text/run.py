"""A PrE-Text run: the jobs of its steps."""

from collections.abc import Sequence
from dataclasses import replace

from flows.methods.evolution import EvolutionRun
from flows.methods.pre_text.config import PreTextConfig
from tasks.guidance.evolution import look_ahead
from tasks.guidance.survivors import Survival
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, vary
from tasks.steps.allocation import per_class
from tasks.steps.values import AHEAD, TextTable
from tasks.writing.generate import WriteJob
from tasks.writing.usable_texts import different_texts
from tasks.writing.variation import Manner

# Hou et al. 2024 and its code
MASKED = 0.3
"""Share of a text's words that the filler masks at once."""
MASK_ROUNDS = 2
"""Rounds of masking and filling for a variation."""
THRESHOLD = 1.0
"""Number that is subtracted from every count (H), in standard deviations of the noise."""


class PreTextRun(EvolutionRun):
    """A PrE-Text run and the jobs of its steps."""

    config: PreTextConfig

    def filled(self, iteration: int, table: TextTable, copies: int) -> list[WriteJob]:
        """Return jobs in which the filler fills masks; its prompts do not name the class."""
        manner = Manner(disclose=False, variation="blanks", mask=MASKED, rounds=MASK_ROUNDS)
        return self.vary_jobs(iteration, [table], copies, (self.config.filler.name,), manner)

    def look_ahead(
        self, iteration: int, population: Sequence[TextTable]
    ) -> tuple[list[TextTable], list[TextTable]]:
        """Return the candidates of the vote, and the variations whose mean vectors represent them, if there are any."""
        if not self.config.method.look_ahead:
            return list(population), []
        votable = list[TextTable]()
        variations = list[TextTable]()
        for table in population:
            ahead = embedded(self.tools, vary, self.look_ahead_jobs(iteration, table))
            votable.append(run_step(look_ahead, self.tools, table, ahead))
            variations += ahead
        return votable, variations

    def look_ahead_jobs(self, iteration: int, table: TextTable) -> list[WriteJob]:
        """Return jobs for variations that only serve the look-ahead; they have separate model numbers."""
        jobs = self.filled(iteration, table, self.config.method.look_ahead)
        part = f"{AHEAD}{table.plm}"
        # A model may have two tables in an iteration: new texts and variations.
        if table.part:
            part = f"{part}-{table.part}"
        separate = [
            replace(job, part=part, plm_index=job.plm_index + len(self.models), earlier=())
            for job in jobs
        ]
        return self.divided(separate)

    def texts_after(self, iteration: int) -> int:
        """Return the population size at first, and the total in the expansion."""
        if iteration == 0:
            return self.config.method.population
        return self.config.method.samples

    def survival(self) -> Survival:
        """Return survivors drawn with replacement, as many as the population."""
        counts = per_class(self.config.method.population, self.prepared.card.label_names)
        return Survival(counts, "draw", THRESHOLD, self.config.execution.seed)

    def is_voted_on(self, iteration: int) -> bool:
        """Return True for every population."""
        return iteration < self.iterations

    @property
    def needed(self) -> dict[str, int]:
        """As many texts of each class as a prompt of the expansion shows."""
        return different_texts(self.prepared.card, self.examples_per_prompt)

    def children_jobs(self, iteration: int, survivors: TextTable) -> list[WriteJob]:
        """Return jobs that vary every survivor as often as it was drawn."""
        return self.divided(self.filled(iteration, survivors, 1))
