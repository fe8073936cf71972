"""A run of private evolution as its flow sees it: variations, vectors that look ahead, survivors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flows.run import Run
from tasks.jobs import SurviveJob, VoteSpec, WriteJob, Written
from tasks.survive import Survival
from tasks.variation import Manner
from tasks.weigh import per_class


class EvolutionRun(Run):
    """What runs of PrE-Text and Aug-PE have in common."""

    @property
    def looks_ahead(self) -> int:
        """How many variations of each candidate its vector is the mean of; 0: none, its own vector is voted on."""
        raise NotImplementedError

    @property
    def variation(self) -> Manner:
        """How texts are varied."""
        raise NotImplementedError

    def survival(self) -> Survival:
        """Say how many texts of each class live on, and how they are chosen."""
        raise NotImplementedError

    def vote_spec(self, iteration: int) -> VoteSpec:
        """Describe the vote of one iteration; vectors that look ahead belong to what is voted on."""
        return replace(super().vote_spec(iteration), looks_ahead=bool(self.looks_ahead))

    def survive_job(self, iteration: int) -> SurviveJob:
        """Choose who lives on."""
        return SurviveJob(iteration, self.survival())

    def ahead_jobs(self, iteration: int, population: Sequence[Written]) -> list[WriteJob]:
        """Vary every text of the population, table by table; none where nothing looks ahead."""
        return [
            replace(
                self.vary_job(iteration, self.varier(one), [one], self.looks_ahead),
                part=f"ahead={one.plm}",
                plm_index=2 * len(self.models) + self.models.index(self.varier(one)),
                earlier=(),
            )
            for one in population
            if self.looks_ahead
        ]

    def varier(self, one: Written) -> str:
        """Name the model that varies the texts of a table."""
        raise NotImplementedError

    def vary_job(self, iteration: int, plm: str, parents: Sequence[Written], copies: int) -> WriteJob:
        """Let a model write `copies` variations of every text of `parents`; a text itself is no variation of it."""
        tables = tuple(one.samples for one in parents)
        return WriteJob(
            plm=plm,
            plm_index=len(self.models) + self.models.index(plm),
            iteration=iteration,
            count=0,
            offset=0,
            card=self.prepared.card,
            examples_per_prompt=0,
            contrast=False,
            seed=self.config.execution.seed,
            earlier=tables,
            manner=self.variation,
            parents=tables,
            copies=copies,
        )

    def balanced(self, texts: int) -> dict[str, int]:
        """Return so many texts shared out among the classes; the numbers of private rows play no part."""
        return per_class(texts, self.prepared.card.label_names)
