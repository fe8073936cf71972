"""A run of Aug-PE: what its steps are asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from connectors.interfaces.artifacts import ArtifactRef
from flows.methods.aug_pe.config import AugPeConfig
from flows.methods.evolution import EvolutionRun
from flows.releases.vocabulary import vocabulary_spec
from tasks.accounting.keyphrase_budget import WordsNoise
from tasks.core.refs import Weights, Written
from tasks.prefect.keyphrases import choose_terms
from tasks.prefect.private import count_terms
from tasks.prefect.runtime import run_step
from tasks.selection.survivors import Survival
from tasks.steps.evolution import SURVIVORS
from tasks.steps.keyphrases import Terms
from tasks.steps.texts import WriteJob
from tasks.text.variation import Manner


class AugPeRun(EvolutionRun):
    """The jobs of one run of Aug-PE."""

    config: AugPeConfig

    @property
    def manner(self) -> Manner:
        """What prompts for new texts tell."""
        method = self.config.method
        return Manner(disclose=method.disclosure == "label", keywords=method.keywords == "list")

    words: Terms | None = None
    """The private vocabulary, once it is released."""

    def release_words(self) -> list[ArtifactRef]:
        """Release the private vocabulary that new texts are asked for with, where keywords come from one."""
        noise, method = self.prepared.noise, self.config.method
        if not isinstance(noise, WordsNoise) or noise.vocabulary is None:
            return []
        spec = vocabulary_spec(self, noise.vocabulary, method.vocabulary_terms, 0.0)
        release = run_step(count_terms, self.tools, spec)
        self.words = run_step(choose_terms, self.tools, spec, release)
        self.guides_all = True
        return [release]

    def slots(self, releases: Sequence[ArtifactRef]) -> set[str]:
        """The vocabulary, if there is one, and the votes."""
        votes = super().slots(releases if self.words is None else releases[1:])
        return votes if self.words is None else {"vocabulary"} | votes

    def write_jobs(
        self, iteration: int, weights: Weights, examples: ArtifactRef | None, written: Sequence[Written]
    ) -> list[WriteJob]:
        """Share the texts; prompts name words of the private vocabulary, if there is one."""
        jobs = super().write_jobs(iteration, weights, examples, written)
        if self.words is None:
            return jobs
        count = self.config.method.words
        card = replace(self.prepared.card, attribute="", values=())
        return [replace(job, card=card, words=self.words.table, words_per_prompt=count) for job in jobs]

    @property
    def variation(self) -> Manner:
        """Paraphrase or blanks, told as much as prompts for new texts are, but for keywords."""
        method = self.config.method
        return replace(self.manner, keywords=False, way=method.variation, mask=method.mask, spread=method.length_spread)

    @property
    def looks_ahead(self) -> int:
        """As the configuration says."""
        return self.config.method.look_ahead

    @property
    def with_own(self) -> bool:
        """As the configuration says."""
        return self.config.method.look_ahead_self

    @property
    def vote_scope(self) -> str:
        """All texts so far where they add up, else the population."""
        return "all" if self.config.method.accumulates else "latest"

    @property
    def why_missing(self) -> str:
        """A text that was drawn twice stands in the result once."""
        drawn = self.config.method.selection == "draw" and not self.config.method.accumulates
        return "some were drawn more than once and stand there once" if drawn else super().why_missing

    def texts_after(self, iteration: int) -> int:
        """A T-th more in each round where texts add up; else all are written at first."""
        return super().texts_after(iteration) if self.config.method.accumulates else self.config.method.samples

    def survival(self) -> Survival:
        """As many as the result holds; where texts add up, a few of each class."""
        method = self.config.method
        counts = self.balanced(method.samples)
        if method.accumulates:
            counts = dict.fromkeys(counts, method.winners)
        return Survival(counts, method.selection, method.threshold, self.config.execution.seed)

    def is_voted_on(self, iteration: int) -> bool:
        """What adds up, but for the last iteration; a population is checked when its variations are there."""
        return self.config.method.accumulates and iteration < self.iterations - 1

    @property
    def needed(self) -> dict[str, int]:
        """More than live on where those with most votes do, since the vote changes nothing else."""
        survival = self.survival()
        if survival.rule == "draw":
            return {}
        return {label: count + 1 for label, count in survival.counts.items()}

    def variers(self, one: Written) -> tuple[str, ...]:
        """The PLMs that wrote the texts."""
        if one.plm != SURVIVORS:
            return (one.plm,)
        wrote = set(self.tools.artifacts.read_table(one.samples)["plm"])
        return tuple(plm for plm in self.plms if plm in wrote)

    def children_jobs(self, iteration: int, parents: Sequence[Written]) -> list[WriteJob]:
        """Let each PLM vary the texts that it wrote; where parents do not stay, each leaves one variation more."""
        method = self.config.method
        copies = method.variations + (iteration > 0 and not method.keep_parents)
        return [job for one in parents for job in self.vary_jobs(iteration, one, copies)]

    def population(self, iteration: int, parents: Sequence[Written], children: Sequence[Written]) -> list[Written]:
        """Return what stands for election."""
        stay = self.config.method.keep_parents or iteration == 0
        return [*(parents if stay else ()), *children]

    def more_jobs(self, iteration: int, winners: Written | None, written: Sequence[Written]) -> list[WriteJob]:
        """Let every PLM add its share: new texts at first, then variations of the winners, which are taken in turn."""
        jobs = self.write_jobs(iteration, self.equal_weights(), None, written)
        if winners is None:
            return jobs
        return [replace(job, manner=self.variation, parents=(winners.samples,), words=None) for job in jobs]
