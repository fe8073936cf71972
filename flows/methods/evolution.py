"""Runs of private evolution (PrE-Text, Aug-PE): jobs for variations and survivors."""

from collections.abc import Sequence
from dataclasses import replace

from flows.engine.run import Run
from tasks.guidance.evolution import SURVIVORS
from tasks.steps.values import TextTable
from tasks.writing.generate import WriteJob
from tasks.writing.variation import Manner

VARIED = "varied"
"""Folder of variations in an iteration, apart from new texts of the same model."""


class EvolutionRun(Run):
    """The common part of runs of PrE-Text and Aug-PE."""

    def vary_jobs(
        self,
        iteration: int,
        tables: Sequence[TextTable],
        copies: int,
        variers: Sequence[str],
        manner: Manner,
    ) -> list[WriteJob]:
        """Return jobs in which `variers` write `copies` variations of every text, each different from all texts.

        `tables`: texts of one model, or survivors.
        """
        texts = tuple(table.samples for table in tables)
        job = replace(
            self.base_job,
            iteration=iteration,
            examples_per_prompt=0,
            # Each prompt shows another text to vary.
            texts_per_prompt=1,
            earlier=texts,
            manner=manner,
            parents=texts,
            copies=copies,
            part=VARIED,
        )
        # A model that writes and varies in one iteration has two numbers, which keep its prompts apart.
        first = len(self.models)
        # Survivors are texts of several models; each model varies its own ones alone.
        own = self.plms if tables[0].plm == SURVIVORS else ()
        listed: set[str] = set()
        if manner.variation == "paraphrase":
            listed = {model.name for model in self.config.models if model.is_listed}
        return [
            replace(
                job,
                plm=plm,
                plm_index=first + self.models.index(plm),
                only=plm if plm in own else "",
                listed=plm in listed,
            )
            for plm in variers
        ]
