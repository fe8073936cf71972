"""Verdicts on the claims of an item, from the results of its comparison.

The claims of one metric in one comparison of an item are a family, whose p-values are adjusted together (Holm 1979).
Claims that are not measured yet count in it, therefore later cells cannot undo that a claim holds or does not hold.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from flows.reproduce.catalogue import StatedClaim
from tasks.metrics.comparison import (
    CellResult,
    Difference,
    adjusted,
    difference,
    is_unnoised,
    paired_difference,
    values_by_seed,
    verdict,
)
from tasks.reporting.compare_results import Comparison
from tasks.reporting.reproduction import Judgement


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A claim in one column before the adjustment of p; `is_higher`: the result is claimed to be above the other."""

    judgement: Judgement
    is_higher: bool


def judge_claims(
    comparison: Comparison, stated: Sequence[StatedClaim] = ()
) -> tuple[Judgement, ...]:
    """Return the claims of an item: those of its published figures, then those that the catalogue states."""
    claims = [
        *_of_published(comparison, _about_reference(comparison, stated)),
        *_of_catalogue(comparison, stated),
    ]
    judgements = [claim.judgement for claim in claims]
    p_values: dict[int, float | None] = {}
    for metric in {judgement.metric for judgement in judgements}:
        numbers = [at for at, entry in enumerate(judgements) if entry.metric == metric]
        family = _adjusted([judgements[at] for at in numbers])
        p_values |= dict(zip(numbers, family, strict=True))
    return tuple(_judged(claim, p_values[at]) for at, claim in enumerate(claims))


def _about_reference(
    comparison: Comparison, stated: Sequence[StatedClaim]
) -> set[tuple[str, str, str]]:
    """Return metrics, rows and columns of stated claims that compare a row with the reference, in either order."""
    return {
        (claim.metric, row, column)
        for claim in stated
        if claim.than and not claim.than_column
        for row, other in ((claim.row, claim.than), (claim.than, claim.row))
        if other == comparison.reference
        for column in claim.columns_of(comparison.columns)
    }


def _of_published(
    comparison: Comparison, stated: Collection[tuple[str, str, str]]
) -> list[_Claimed]:
    """Return a claim for each published figure that differs from the one of the reference row.

    `stated`: metrics, rows and columns whose claim the catalogue states.
    """
    reference = comparison.reference
    claims = []
    for metric, row, column in comparison.published:
        figure = comparison.published[metric, row, column]
        other = comparison.published.get((metric, reference, column))
        is_part = (
            metric in comparison.metrics
            and row in comparison.rows
            and column in comparison.columns
            and (metric, row, column) not in stated
        )
        if not is_part or row == reference or other is None or figure == other:
            continue
        side = "above" if figure > other else "below"
        judgement = Judgement(
            claim=f"{row} {side} {reference}",
            metric=metric,
            column=column,
            published=figure - other,
            ours=difference(comparison.answers, row, reference, column, metric),
            p=None,
            verdict="",
            seeds=len(comparison.seeds),
            is_unnoised=_has_unnoised(comparison, [(row, column), (reference, column)]),
        )
        claims.append(_Claimed(judgement, figure > other))
    return claims


def _of_catalogue(comparison: Comparison, stated: Sequence[StatedClaim]) -> list[_Claimed]:
    """Return the claims that the catalogue states, one for each of their columns."""
    return [
        _stated(comparison, claim, column)
        for claim in stated
        for column in claim.columns_of(comparison.columns)
    ]


def _stated(comparison: Comparison, claim: StatedClaim, column: str) -> _Claimed:
    other = (claim.than or claim.row, claim.than_column or column)
    judgement = Judgement(
        claim=claim.text,
        metric=claim.metric,
        column=column,
        published=claim.published.get(column),
        ours=_difference(comparison.answers, claim, column),
        p=None,
        verdict="",
        seeds=len(comparison.seeds),
        is_unnoised=_has_unnoised(comparison, [(claim.row, column), other]),
    )
    return _Claimed(judgement, claim.is_higher)


def _adjusted(family: Sequence[Judgement]) -> list[float | None]:
    """Return the adjusted p-values of claims of one metric; None without a difference.

    A claim whose seeds are not all there counts with p 1 among those that are judged. Whatever becomes of it, their
    adjusted p can only fall.
    """
    measured = [claim.ours.p if claim.ours else None for claim in family]
    of_judged = [p if claim.is_judged else None for claim, p in zip(family, measured, strict=True)]
    whole = adjusted([1.0 if p is None else p for p in of_judged])
    partial = adjusted([1.0 if p is None else p for p in measured])
    results: list[float | None] = []
    for at, claim in enumerate(family):
        if measured[at] is None:
            results.append(None)
        elif claim.is_judged:
            results.append(whole[at])
        else:
            results.append(partial[at])
    return results


def _judged(claim: _Claimed, p: float | None) -> Judgement:
    ours = claim.judgement.ours
    if ours is None:
        return claim.judgement
    # A claimed order of two results; their sizes have no part in it.
    claimed = (1.0, 0.0) if claim.is_higher else (0.0, 1.0)
    return replace(claim.judgement, p=p, verdict=verdict(ours, claimed, p))


def _difference(
    answers: Sequence[CellResult], claim: StatedClaim, column: str
) -> Difference | None:
    """Return the measured difference of a claim, paired by seed; None without a common seed."""
    if claim.direction in ("falling", "rising"):
        first, last = _ends(answers, claim, column)
        return paired_difference(last, first)
    ours = values_by_seed(answers, claim.row, column, claim.metric)
    other = claim.than or claim.row
    theirs = values_by_seed(answers, other, claim.than_column or column, claim.metric)
    return paired_difference(ours, theirs)


def _ends(
    answers: Sequence[CellResult], claim: StatedClaim, column: str
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
