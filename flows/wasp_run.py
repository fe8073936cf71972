"""A run of WASP: what its steps are asked to do, in the names of Algorithm 1."""

from __future__ import annotations

from collections.abc import Sequence

from flows.params import WaspConfig
from flows.run import Run
from tasks.jobs import SelectJob, WeighJob, Weights, Written


class WaspRun(Run):
    """The jobs of one run of WASP."""

    config: WaspConfig

    @property
    def examples_per_prompt(self) -> int:
        """S, half of them bad."""
        return self.config.method.examples

    @property
    def contrast(self) -> bool:
        """As the configuration says."""
        return self.config.method.contrast

    @property
    def vote_scope(self) -> str:
        """All texts so far (paper), or those of this round."""
        return self.config.method.vote_scope

    def votable(self, iteration: int, written: Sequence[Written]) -> tuple[Written, ...]:
        """Return what stands for election: all texts so far (paper), or those of this round."""
        return tuple(one for one in written if self.vote_scope == "all" or one.iteration == iteration)

    def select_job(self, iteration: int) -> SelectJob:
        """Take the top S of each class."""
        return SelectJob(iteration, self.config.method.examples)

    def weigh_job(self, iteration: int, weights: Weights) -> WeighJob:
        """Weigh the PLMs by the votes of their texts."""
        method = self.config.method
        return WeighJob(iteration, self.plms, method.weighting, weights, method.weights_by, method.temperature)
