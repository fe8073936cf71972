"""The releases of WASP: noisy votes, one density for all iterations, or nothing if `auto` keeps the rows closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from flows.config.rows import CorpusRows
from flows.methods.voting import promise_of, votes_release
from flows.methods.wasp.calibration import calibrated
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.opening import LABEL_WIDTH, ClosedRows, opening_lines
from tasks.accounting.guarantee import Guarantee, no_release
from tasks.accounting.integer_noise import SumNoise
from tasks.private.density.promise import DensityPrivacy
from tasks.private.density.release import DensityRelease, Use
from tasks.private.release import Release
from tasks.private.votes.promise import VoteNoise
from tasks.reporting.run_record import Section

if TYPE_CHECKING:
    from flows.engine.run import Run

WITHOUT_EXAMPLES = (
    "examples      method.examples: 0 is better here: with examples the texts of bundled small models get more alike, "
    "and classifiers of them worse"
)
"""Line of a plan, by the measurements of docs/results/guidance_auto.md."""


def wasp_sections(run: Run) -> tuple[Section, ...]:
    """Return the sections of the report: the decision of `auto` with its forecast before the run."""
    opening = cast("WaspConfig", run.prepared.requested_config).opening
    if opening is None:
        return ()
    return (_worth(opening_lines(opening)),)


def _worth(lines: Sequence[str]) -> Section:
    """Return the forecast as a table: label and text of its lines; lines without a label continue the one above."""
    rows: list[tuple[str, str]] = []
    for line in lines:
        label = line[:LABEL_WIDTH].strip()
        text = line[LABEL_WIDTH:].strip()
        if rows and not label:
            label, before = rows.pop()
            text = f"{before}; {text}"
        rows.append((label, text))
    return Section("Worth of the private records", "", ("", "expected before the run"), tuple(rows))


def wasp_releases(config: WaspConfig) -> Guarantee[Release]:
    """Return the guarantee of a WASP run; without any charge if `auto` keeps the rows closed."""
    opening = config.opening
    # No rows are configured.
    if opening is None and not config.uses_private_rows:
        return no_release()
    noise = calibrated(config)
    # `auto` keeps the rows closed. The plan shows the noise that their release would have had.
    if opening is not None and not config.uses_private_rows:
        closed = ClosedRows(opening, config.privacy.epsilon, noise.delta, noise.sensitivity)
        return replace(no_release(), releases=(closed,))
    promise = promise_of(config)
    if isinstance(noise, VoteNoise):
        return Guarantee(promise, (votes_release(config, noise),))
    return Guarantee(promise, (_density_release(config, noise),))


def _density_release(config: WaspConfig, noise: SumNoise[DensityPrivacy]) -> DensityRelease:
    """Return the release of a configuration's density, with the public numbers that its lines state."""
    config.require_effect()
    method = config.method
    # Declared, never counted: the lines of a plan are public.
    rows = config.private.public_number if config.private else None
    use = Use(rows, method.candidates, method.examples, method.samples, method.iterations)
    forecast: list[str] = []
    if config.opening is not None:
        forecast = opening_lines(config.opening)
    if config.is_better_without_examples:
        forecast.append(WITHOUT_EXAMPLES)
    if config.public_corpus is not None:
        forecast.append(_corpus_line(config.public_corpus))
    return DensityRelease(noise, use, tuple(forecast), config.labels_texts)


def _corpus_line(corpus: CorpusRows) -> str:
    """Return the plan's line about a public corpus; a plan reads no row, so it states `rows` only."""
    number = f"{corpus.rows:,}" if corpus.rows else "all"
    return (
        f"corpus        {number} texts of {corpus.source} ({corpus.licence}) join the written ones; the same release "
        "labels them, no further epsilon"
    )
