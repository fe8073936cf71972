"""A WASP run: the jobs of its steps, with the names of Algorithm 1."""

from collections.abc import Sequence
from dataclasses import replace

from connectors.interfaces.artifacts import ArtifactRef
from flows.engine.run import Run
from flows.methods.wasp.config import WaspConfig
from tasks.guidance.density import WeighJob
from tasks.guidance.topics import find_topics, topics_path
from tasks.prefect.runtime import run_step
from tasks.private.density.release import DensityRelease
from tasks.private.density.step import estimate_density
from tasks.steps.values import TextTable, Weights
from tasks.writing.generate import WriteJob
from tasks.writing.usable_texts import MIN_TEXTS, different_texts


class WaspRun(Run):
    """A WASP run and the jobs of its steps."""

    config: WaspConfig

    @property
    def base_job(self) -> WriteJob:
        """Prompts show bad examples next to good ones."""
        return replace(super().base_job, contrast=self.config.method.contrast)

    @property
    def vote_scope(self) -> str:
        """Candidates: all texts so far (paper)."""
        return "all"

    def is_voted_on(self, iteration: int) -> bool:
        """Return True for every iteration except the last; with a density only for the first."""
        return (
            iteration < self.iterations - 1
            and self.density is None
            and self.config.uses_private_rows
        )

    @property
    def needed(self) -> dict[str, int]:
        """S texts of each class, the number in a prompt; without examples as few as any release."""
        return different_texts(self.prepared.card, self.examples_per_prompt or MIN_TEXTS)

    def guidance(self, iteration: int, votable: Sequence[TextTable]) -> ArtifactRef:
        """Return the release that guides the next texts: a vote, or one density for all iterations."""
        if not self.config.method.releases_density:
            return self.vote(iteration, votable)
        # Released once: later iterations reuse it without any cost.
        if self.density is None:
            density = self.prepared.guarantee.of(DensityRelease)
            assert density is not None
            self.density = self.release(
                estimate_density, self.payer, density.noise, self.needed, votable
            )
            if self.needs_topics:
                language = self.prepared.card.language
                self.topics = run_step(find_topics, self.tools, self.density, language)
        return self.density

    @property
    def needs_topics(self) -> bool:
        """True if prompts describe the classes, unless an earlier version has written texts of this run without it."""
        folder = f"runs/{self.tools.run_id}"
        exists = self.tools.artifacts.exists
        began = exists(f"{folder}/iteration=1/plan.json")
        return self.config.finds_topics and (not began or exists(topics_path(self.tools.run_id)))

    @property
    def least_share(self) -> float:
        """Smallest part of an equal share that a model writes; the paper has none."""
        if self.config.privacy.calibration == "paper":
            return 0.0
        return super().least_share

    def weigh_job(self, iteration: int, weights: Weights) -> WeighJob:
        """Return the job that weighs the PLMs by the votes of their texts (Eq. 8)."""
        method = self.config.method
        dense = self.config.releases_density
        return WeighJob(iteration, self.plms, method.weighting, weights, method.weights_by, dense)
