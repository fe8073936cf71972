"""A run of private evolution as its flow sees it: variations, vectors that look ahead, survivors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flows.engine.run import Run
from tasks.core.refs import AHEAD, Written
from tasks.prefect.evolution import look_ahead, vary
from tasks.prefect.runtime import embedded, run_step
from tasks.selection.survivors import Survival
from tasks.steps.evolution import SURVIVORS, SurviveJob
from tasks.steps.texts import WriteJob
from tasks.text.class_balance import texts_per_class
from tasks.text.variation import Manner

VARIED = "varied"
"""Folder of variations in an iteration: the same model may write new texts in it as well."""


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

    def survive_job(self, iteration: int) -> SurviveJob:
        """Choose who lives on."""
        return SurviveJob(iteration, self.survival())

    @property
    def with_own(self) -> bool:
        """Whether a text's own vector counts in the mean that looks ahead."""
        return False

    def variers(self, one: Written) -> tuple[str, ...]:
        """Name the models that vary the texts of a table."""
        raise NotImplementedError

    def vary_jobs(self, iteration: int, one: Written, copies: int) -> list[WriteJob]:
        """Let models write `copies` variations of every text of a table; a text itself is no variation of it."""
        return [self._vary_job(iteration, plm, one, copies) for plm in self.variers(one)]

    def ahead_jobs(self, iteration: int, one: Written) -> list[WriteJob]:
        """Let models vary a table's texts only to see where the variations lie; they are numbered apart."""
        jobs = self.vary_jobs(iteration, one, self.looks_ahead)
        beside = f"{AHEAD}{one.plm}-{one.part}" if one.part else f"{AHEAD}{one.plm}"
        return [replace(job, part=beside, plm_index=job.plm_index + len(self.models), earlier=()) for job in jobs]

    def _vary_job(self, iteration: int, plm: str, one: Written, copies: int) -> WriteJob:
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
            earlier=(one.samples,),
            manner=self.variation,
            parents=(one.samples,),
            copies=copies,
            only=plm if one.plm == SURVIVORS and plm in self.plms else "",
            part=VARIED,
        )

    def balanced(self, texts: int) -> dict[str, int]:
        """Return so many texts shared out among the classes: equally, or as the tutor says."""
        return texts_per_class(texts, self.prepared.card.label_names, shares=self.shares)


def ahead_of(run: EvolutionRun, iteration: int, population: Sequence[Written]) -> tuple[list[Written], list[Written]]:
    """Return the population as it stands for election, and the variations that were made for that.

    A text that looks ahead stands where its variations lie on average.
    """
    if not run.looks_ahead:
        return list(population), []
    votable, made = list[Written](), list[Written]()
    for one in population:
        ahead = embedded(run.tools, vary, run.ahead_jobs(iteration, one))
        votable.append(run_step(look_ahead, run.tools, one, ahead, run.with_own))
        made += ahead
    return votable, made
