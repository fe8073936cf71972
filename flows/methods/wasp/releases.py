"""The releases of WASP: noisy votes, one density for all iterations, or nothing if `auto` keeps the rows closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from flows.engine.method import Release, Releases
from flows.methods.wasp.config import WaspConfig
from flows.releases.budget import share_budget
from flows.releases.density import DensityRelease, density_hint
from flows.releases.opening import LABEL_WIDTH, ClosedRows, opening_lines
from flows.releases.votes import VotesRelease, vote_noise, vote_privacy_of
from tasks.accounting.density import calibrate_density
from tasks.accounting.no_noise import no_release
from tasks.reporting.run_record import Section

if TYPE_CHECKING:
    from flows.engine.run import Run
    from tasks.accounting.votes import Noise
    from tasks.text.prompts import TaskCard


@dataclass(frozen=True, slots=True)
class WaspVotes(VotesRelease):
    """The votes of a WASP run; its warnings suggest a density."""

    config: WaspConfig

    def alternative(self, card: TaskCard, rows: int) -> str:
        """Suggest the density if it has enough signal."""
        return density_hint(self.config, rows, len(card.labels), self.noise.privacy)


def wasp_sections(run: Run) -> tuple[Section, ...]:
    """Return the sections of the report: the decision of `auto` with its forecast."""
    opening = cast("WaspConfig", run.prepared.asked).opening
    if opening is None:
        return ()
    zero_shot = run.facts_so_far[0].probe_accuracy if run.facts_so_far else None
    return (_worth(opening_lines(replace(opening, zero_shot=zero_shot))),)


def _worth(lines: Sequence[str]) -> Section:
    """Return the forecast as a table: label and text of its lines; lines without a label continue the one above."""
    rows: list[tuple[str, str]] = []
    for line in lines:
        label, text = line[:LABEL_WIDTH].strip(), line[LABEL_WIDTH:].strip()
        rows = [*rows, (label, text)] if label or not rows else [*rows[:-1], (rows[-1][0], f"{rows[-1][1]} {text}")]
    return Section("Worth of the private records", "", ("", "expected before the run"), tuple(rows))


def wasp_releases(config: WaspConfig) -> Releases:
    """Return the releases of a WASP run; without any charge if `auto` keeps the rows closed."""
    if not config.opens_rows:
        opening, epsilon = config.opening, config.privacy.epsilon
        closed = (ClosedRows(opening, epsilon, calibrated(config)),) if opening is not None else ()
        return Releases(no_release(), closed)

    def wrap(noise: Noise) -> tuple[Release, ...]:
        return (DensityRelease(noise.sums[0], config) if noise.sums else WaspVotes(config, noise),)

    return share_budget(config, _noise, wrap)


def calibrated(config: WaspConfig) -> Noise:
    """Return the noise of all releases as if `auto` opened the rows."""
    return share_budget(config, _noise, lambda _: ()).noise


def _noise(config: WaspConfig) -> Noise:
    if config.method.releases_density:
        return calibrate_density(vote_privacy_of(config))
    return vote_noise(config)
