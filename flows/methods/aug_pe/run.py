"""An Aug-PE run: the jobs of its steps."""

from collections.abc import Sequence
from dataclasses import replace

from connectors.interfaces.artifacts import ArtifactRef
from flows.methods.aug_pe.config import AugPeConfig
from flows.methods.evolution import EvolutionRun
from flows.methods.vocabulary import vocabulary_spec
from tasks.guidance.evolution import SURVIVORS
from tasks.guidance.phrases import choose_terms
from tasks.guidance.survivors import Survival
from tasks.prefect.runtime import run_step
from tasks.private.phrases.step import Terms, count_terms
from tasks.steps.allocation import per_class
from tasks.steps.values import TextTable, Weights
from tasks.writing.generate import WriteJob
from tasks.writing.variation import Manner

VOCABULARY_TERMS = 1000
"""Terms in the private vocabulary at most (Nagesh et al. 2025)."""
WINNERS = 8
"""Texts of a class that the next iteration varies (style wasp_baseline): the examples S of the WASP paper."""


class AugPeRun(EvolutionRun):
    """An Aug-PE run and the jobs of its steps."""

    config: AugPeConfig

    @property
    def manner(self) -> Manner:
        """Content of prompts for new texts."""
        method = self.config.method
        return Manner(disclose=method.disclosure == "label", keywords=method.keywords == "list")

    @property
    def base_job(self) -> WriteJob:
        """Prompts have the manner of new texts."""
        return replace(super().base_job, manner=self.manner)

    words: Terms | None = None
    """The private vocabulary, once it is released."""

    def release_words(self) -> None:
        """Release the private vocabulary for the prompts of new texts, if configured."""
        if self.config.counts_words:
            spec = vocabulary_spec(self, VOCABULARY_TERMS, 0.0)
            self.words = run_step(choose_terms, self.tools, spec, self.release(count_terms, spec))
            self.guides_all = True

    def write_jobs(
        self,
        iteration: int,
        weights: Weights,
        examples: ArtifactRef | None,
        written: Sequence[TextTable],
    ) -> list[WriteJob]:
        """Return one job per PLM; prompts contain terms of the private vocabulary, if there is one."""
        jobs = super().write_jobs(iteration, weights, examples, written)
        if self.words is None:
            return jobs
        # The terms take the place of the task's attribute, from which keywords come otherwise.
        card = replace(self.prepared.card, attribute="", values=())
        return [replace(job, card=card, words=self.words.table) for job in jobs]

    @property
    def variation(self) -> Manner:
        """Paraphrase or blanks, with the same disclosure as prompts for new texts and without keywords."""
        method = self.config.method
        return replace(self.manner, keywords=False, variation=method.variation, mask=method.mask)

    @property
    def vote_scope(self) -> str:
        """Candidates: all texts so far (wasp_baseline), or the population."""
        return "all" if self.config.method.accumulates else "latest"

    def texts_after(self, iteration: int) -> int:
        """Return 1/T more texts per iteration (wasp_baseline), or all texts from the start."""
        if self.config.method.accumulates:
            return super().texts_after(iteration)
        return self.config.method.samples

    def survival(self) -> Survival:
        """Return the texts with most votes: the size of the result, or a few winners of each class (wasp_baseline)."""
        method = self.config.method
        counts = per_class(method.samples, self.prepared.card.label_names)
        if method.accumulates:
            counts = dict.fromkeys(counts, WINNERS)
        return Survival(counts, seed=self.config.execution.seed)

    def is_voted_on(self, iteration: int) -> bool:
        """Return True in wasp_baseline except for the last iteration; a population is checked after variation."""
        return self.config.method.accumulates and iteration < self.iterations - 1

    @property
    def needed(self) -> dict[str, int]:
        """More texts than survivors: else the vote has no effect."""
        return {label: count + 1 for label, count in self.survival().counts.items()}

    def variers(self, table: TextTable) -> tuple[str, ...]:
        """Return the PLMs that wrote the texts."""
        if table.plm != SURVIVORS:
            return (table.plm,)
        authors = set(self.tools.artifacts.read_table(table.samples, ["plm"])["plm"])
        return tuple(plm for plm in self.plms if plm in authors)

    def children_jobs(self, iteration: int, parents: Sequence[TextTable]) -> list[WriteJob]:
        """Return jobs in which each PLM varies its own texts."""
        copies = self.config.method.variations
        manner = self.variation
        by_writer: dict[str, list[TextTable]] = {}
        for table in parents:
            by_writer.setdefault(table.plm, []).append(table)
        jobs = [
            job
            for tables in by_writer.values()
            for job in self.vary_jobs(iteration, tables, copies, self.variers(tables[0]), manner)
        ]
        return self.divided(jobs)

    def more_jobs(
        self, iteration: int, winners: TextTable | None, written: Sequence[TextTable]
    ) -> list[WriteJob]:
        """Return one job per PLM: new texts at first, then variations of the winners in turn."""
        jobs = self.write_jobs(iteration, self.equal_weights(), None, written)
        if winners is None:
            return jobs
        return [
            replace(job, manner=self.variation, parents=(winners.samples,), words=None)
            for job in jobs
        ]
