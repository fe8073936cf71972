"""A run of the discriminator with a tutor: what its steps are asked to do."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.base import ArtifactRef
from flows.distilled_run import distil, select
from flows.params_kd import KdTutorConfig
from flows.run import Run
from tasks.jobs import Written


class KdRun(Run):
    """The jobs of one run of the discriminator with a tutor."""

    config: KdTutorConfig

    def wanted(self, iteration: int) -> int:  # noqa: ARG002  (all texts are written at once)
        """All texts that are chosen from."""
        return self.config.method.written

    def distil(self, written: Sequence[Written]) -> tuple[ArtifactRef | None, list[ArtifactRef]]:
        """Return the student of the teachers and what was released for it; nothing where texts are kept by chance."""
        if self.config.filtering is None:
            return None, []
        return distil(self, written)

    def select(self, written: Sequence[Written], discriminator: ArtifactRef | None) -> list[Written]:
        """Keep what the student takes for private, of each class its part."""
        return select(self, written, discriminator)

    @property
    def why_missing(self) -> str:
        """A class had fewer texts than its part."""
        return "of some classes fewer texts were written than their part of the result; raise method.written"
