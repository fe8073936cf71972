"""Verdicts on the claims of an item, from the results of its comparison."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flows.reproduce.catalogue import DrawnClaim
from tasks.metrics.comparison import (
    CellResult,
    Difference,
    adjusted,
    is_unnoised,
    paired_difference,
    values_by_seed,
    verdict,
)
from tasks.reporting.compare_report import claims
from tasks.reporting.compare_results import Comparison
from tasks.reporting.reproduction import Judgement


@dataclass(frozen=True, slots=True)
class _Measured:
    """A claim of a figure in one column, with its difference before the adjustment of p."""

    claim: DrawnClaim
    column: str
    ours: Difference | None


def judge_claims(comparison: Comparison, drawn: Sequence[DrawnClaim]) -> tuple[Judgement, ...]:
    """Return the claims of an item: those of its published figures, then those of its drawn ones."""
    return (*_judge_published(comparison), *_judge_drawn(comparison, drawn))


def _judge_published(comparison: Comparison) -> list[Judgement]:
    """Return a claim for each published figure that differs from the one of the reference row.

    Also for those without a result, which the claims of a comparison leave out.
    """
    measured = {(claim.metric, claim.row, claim.column): claim for claim in claims(comparison)}
    reference = comparison.reference
    judgements = []
    for metric, row, column in comparison.published:
        figure = comparison.published[metric, row, column]
        other = comparison.published.get((metric, reference, column))
        is_part = row in comparison.rows and column in comparison.columns
        if not is_part or row == reference or other is None or figure == other:
            continue
        side = "above" if figure > other else "below"
        judgement = Judgement(
            claim=f"{row} {side} {reference}",
            metric=metric,
            column=column,
            published=figure - other,
            ours=None,
            p=None,
            verdict="",
            seeds=len(comparison.seeds),
            is_unnoised=_has_unnoised(comparison, [(row, column), (reference, column)]),
        )
        claim = measured.get((metric, row, column))
        if claim is not None:
            judgement = replace(judgement, ours=claim.ours, p=claim.p, verdict=claim.verdict)
        judgements.append(judgement)
    return judgements


def _judge_drawn(comparison: Comparison, drawn: Sequence[DrawnClaim]) -> list[Judgement]:
    """Return the claims of a figure; p is adjusted for those of the same metric."""
    measured = [
        _Measured(claim, column, _difference(comparison.answers, claim, column))
        for claim in drawn
        for column in ([claim.column] if claim.column else comparison.columns)
    ]
    p_values: dict[int, float | None] = {}
    for metric in {entry.claim.metric for entry in measured}:
        numbers = [at for at, entry in enumerate(measured) if entry.claim.metric == metric]
        own = [measured[at].ours for at in numbers]
        values = adjusted([ours.p if ours else None for ours in own])
        p_values |= dict(zip(numbers, values, strict=True))
    return [_judged(comparison, entry, p_values[number]) for number, entry in enumerate(measured)]


def _judged(comparison: Comparison, entry: _Measured, p: float | None) -> Judgement:
    claim = entry.claim
    is_higher = claim.direction in ("above", "rising")
    # A claimed order of two results, without their sizes.
    claimed = (1.0, 0.0) if is_higher else (0.0, 1.0)
    other = (claim.than or claim.row, claim.than_column or entry.column)
    return Judgement(
        claim=claim.text,
        metric=claim.metric,
        column=entry.column,
        published=None,
        ours=entry.ours,
        p=p,
        verdict="" if entry.ours is None else verdict(entry.ours, claimed, p),
        seeds=len(comparison.seeds),
        is_unnoised=_has_unnoised(comparison, [(claim.row, entry.column), other]),
    )


def _difference(answers: Sequence[CellResult], claim: DrawnClaim, column: str) -> Difference | None:
    """Return the measured difference of a claim, paired by seed; None without a common seed."""
    if claim.direction in ("falling", "rising"):
        first, last = _ends(answers, claim, column)
        return paired_difference(last, first)
    ours = values_by_seed(answers, claim.row, column, claim.metric)
    other = claim.than or claim.row
    theirs = values_by_seed(answers, other, claim.than_column or column, claim.metric)
    return paired_difference(ours, theirs)


def _ends(
    answers: Sequence[CellResult], claim: DrawnClaim, column: str
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the values of the first and of the last measured iteration, by seed."""
    first = {}
    last = {}
    for answer in answers:
        if (answer.row, answer.column) != (claim.row, column):
            continue
        values = [point.get(claim.metric) for point in answer.curve]
        measured = [value for value in values if value is not None]
        if len(measured) > 1:
            first[answer.seed] = measured[0]
            last[answer.seed] = measured[-1]
    return first, last


def _has_unnoised(comparison: Comparison, results: Sequence[tuple[str, str]]) -> bool:
    return any(is_unnoised(comparison.answers, row, column) for row, column in results)
