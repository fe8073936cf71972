"""The releases of WASP: noisy votes, one density for all iterations, or nothing if `auto` keeps the rows closed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from flows.engine.method import Release
from flows.methods.wasp.calibration import calibrated
from flows.methods.wasp.config import WaspConfig
from flows.releases.opening import LABEL_WIDTH, ClosedRows, opening_lines
from flows.releases.sums import SumRelease
from flows.releases.votes import VotesRelease, promise_of
from tasks.accounting.guarantee import Guarantee, no_release
from tasks.private.votes.promise import VoteNoise
from tasks.reporting.run_record import Section

if TYPE_CHECKING:
    from flows.engine.run import Run
    from tasks.text.prompts import TaskCard


TYPICAL_SHIFT = 0.3
"""Mean distance of private records from synthetic texts, measured on three data sets (0.25 to 0.6)."""


@dataclass(frozen=True, slots=True)
class DensityRelease(SumRelease):
    """One noisy density of the private records that guides all iterations instead of votes."""

    config: WaspConfig

    def plan(self) -> Sequence[str]:
        """Return the noise and the uses of the density."""
        opening, noise = self.config.opening, self.noise
        lines = [
            *(opening_lines(opening) if opening is not None else []),
            "releases      1 density of the private rows per class (the average of their vectors), for all iterations; "
            f"one {noise.privacy.protects} changes it by at most {noise.sensitivity:.4f} (L2)",
            f"noise         sigma {noise.scale:.4f}, of features of length 1",
            "reuse         a later run with the same rows and privacy settings reuses this release without a charge",
        ]
        if self.config.labels_texts:
            lines.append("labels        each text gets the probability of each class by the release; students learn it")
        return lines

    def warnings(self, card: TaskCard) -> list[str]:
        """Warn when the noise exceeds the density, or when too few texts are available as examples.

        The warnings contain public numbers only. The signal index compares the common shift of all classes, from texts
        to private rows, with its noise along one direction, sigma sqrt(C) / rows. In addition, if a class has hardly
        more texts in the first iteration than a prompt shows, nearly all of them become examples and the density has
        no effect.
        """
        private, method, classes = self.config.private, self.config.method, len(card.labels)
        rows, sigma = private.public_number if private else None, self.noise.scale
        if rows is None or sigma <= 0:
            return []
        warnings = []
        index = TYPICAL_SHIFT * rows / (sigma * math.sqrt(classes))
        if index < 1:
            warnings.append(
                f"signal index {index:.2f} < 1: with {rows} rows the noise exceeds the difference between private rows "
                "and texts, so the choice of examples is near chance. Use more rows or a larger epsilon"
            )
        first = method.candidates // classes
        if first < 2 * method.examples:
            rounds = max(2, min(method.iterations, method.samples // (2 * method.examples * classes)))
            fewer = f"Set method.iterations to {rounds}, or w" if rounds < method.iterations else "W"
            warnings.append(
                f"each class has {first} texts in the first iteration and prompts show {method.examples}, so nearly "
                f"all become examples. {fewer}rite more texts"
            )
        return warnings

    @property
    def text(self) -> str:
        """Contents of the release, its noise and what one record moves."""
        noise = self.noise
        how = "without noise" if noise.kind == "none" else f"with integer Gaussian noise, sigma {noise.scale:.4f}"
        return (
            f"{self.kind.text}, {how}; one {noise.privacy.protects} moves all of them together by at most "
            f"{noise.sensitivity:g} (L2)"
        )


def wasp_sections(run: Run) -> tuple[Section, ...]:
    """Return the sections of the report: the decision of `auto` with its forecast before the run."""
    opening = cast("WaspConfig", run.prepared.asked).opening
    if opening is None:
        return ()
    return (_worth(opening_lines(opening)),)


def _worth(lines: Sequence[str]) -> Section:
    """Return the forecast as a table: label and text of its lines; lines without a label continue the one above."""
    rows: list[tuple[str, str]] = []
    for line in lines:
        label, text = line[:LABEL_WIDTH].strip(), line[LABEL_WIDTH:].strip()
        rows = [*rows, (label, text)] if label or not rows else [*rows[:-1], (rows[-1][0], f"{rows[-1][1]}; {text}")]
    return Section("Worth of the private records", "", ("", "expected before the run"), tuple(rows))


def wasp_releases(config: WaspConfig) -> Guarantee[Release]:
    """Return the guarantee of a WASP run; without any charge if `auto` keeps the rows closed."""
    noise = calibrated(config)
    if config.opens_rows:
        release = VotesRelease(config, noise) if isinstance(noise, VoteNoise) else DensityRelease(noise, config)
        return Guarantee(promise_of(config), (release,))
    if config.opening is None:
        return no_release()
    closed = ClosedRows(config.opening, config.privacy.epsilon, noise.delta, noise.sensitivity)
    return replace(no_release(), releases=(closed,))
