"""How a report says things: numbers, and the privacy promise in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from connectors.interfaces.models import Usage
from tasks.reporting.report_model import Happened, Report

ABSENT = "not measured"
NOT_RECORDED = "not recorded"
_MINUTE, _HOUR = 60, 3600
_EXAMPLE_PRIOR = 0.01
_ELSEWHERE = "what the language models learned elsewhere: they may repeat texts of their own training"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many digits after the point, 'not measured' for None."""
    if value is None or math.isnan(value):
        return ABSENT
    return "infinite" if math.isinf(value) else f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    """Return a whole number with thousands apart."""
    return ABSENT if value is None else f"{value:,}"


def percent(value: float | None) -> str:
    """Return a share in percent."""
    return ABSENT if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def dollars(value: float | None) -> str:
    """Return an amount of money; a tenth of a cent still shows."""
    return ABSENT if value is None else f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.4f}"


def money(usage: Usage) -> str:
    """Return what calls cost, and the part whose tokens servers did not report."""
    estimated = f", of which {dollars(usage.estimated_dollars)} estimated" if usage.estimated_dollars else ""
    return dollars(usage.dollars) + estimated


def unreported(usage: Mapping[str, Usage]) -> list[str]:
    """Return one sentence per language model whose server did not report the tokens of every call."""
    return [
        f"{plm}: the server did not report the tokens of {count(cost.estimated_calls)} calls. Those tokens, and "
        f"{dollars(cost.estimated_dollars)} of the cost, are estimated from bytes."
        for plm, cost in usage.items()
        if cost.estimated_calls
    ]


def epsilon(value: float | None) -> str:
    """Return a privacy loss; without a bound it is infinite, never a blank."""
    return "infinite" if value is None or math.isinf(value) else f"{value:.4g}"


def added(happened: Happened) -> str:
    """Return the epsilon that a run added to the budget."""
    return NOT_RECORDED if happened.charged is None else epsilon(happened.added)


def charged(happened: Happened) -> str:
    """Return how many releases a run charged and how many of earlier runs it reused."""
    if happened.charged is None:
        return NOT_RECORDED
    return f"{happened.charged} charged, {happened.releases - happened.charged} reused"


def duration(seconds: float) -> str:
    """Return a time as a person says it."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE)} s"
    return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE)} min"


def reasons(failures: Mapping[str, Mapping[str, int]]) -> str:
    """Return why texts were left out, all PLMs together, the most frequent reason first."""
    total: dict[str, int] = {}
    for of_plm in failures.values():
        for reason, times in of_plm.items():
            total[reason] = total.get(reason, 0) + times
    ranked = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {times:,}" for reason, times in ranked if times) or "none"


def certainty(loss: float, prior: float = 0.5) -> float:
    """Return how sure somebody who was `prior` sure that a row took part can become: Bayes with odds times e^epsilon.

    At a prior of one half this is e^epsilon / (1 + e^epsilon).
    """
    odds = math.log(prior / (1 - prior)) + loss
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


def promise(report: Report) -> list[str]:
    """Return what this run promises, one thought per entry."""
    if not report.opens_rows:
        return [
            "No private rows were opened: nothing of this run depends on anybody's private text, its epsilon is 0, and "
            "the budget book holds no line of it.",
        ]
    if report.not_private:
        return [
            "This run drew no noise (epsilon is infinite). Nothing is promised: the texts, the weights and the "
            "student may reveal private rows. Do not share them.",
        ]
    loss, plan = report.happened.epsilon or 0.0, report.plan
    return [
        f"Protected is {_unit(plan.protects)}. {_neighbours(plan.protects, plan.adjacency)}",
        f"The privacy loss of this run's output is epsilon {epsilon(loss)}, all {report.happened.releases} releases "
        f"that it depends on together; to the budget it added epsilon {added(report.happened)} "
        f"({charged(report.happened)}). Think of somebody who knows every other private row, sees everything that "
        f"this run shares, and holds it for equally likely (50 %) that a given {_short(plan.protects)} took part. That "
        f"person can become at most {_shown(certainty(loss))} sure. Somebody who starts at 1 % ends at no more than "
        f"{_shown(certainty(loss, _EXAMPLE_PRIOR))}.",
        f"Delta {plan.delta:g}: the promise may fail with a probability of at most {_one_in(plan.delta)}.",
        "The promise holds whatever else anybody knows or will learn, and for everything computed from "
        f"{plan.affected}.",
        *([f"The {plan.public_rows}, not about all rows of the source."] if plan.public_rows else []),
        *_among_parties(report),
    ]


def _among_parties(report: Report) -> list[str]:
    """Return against whom the promise holds where several parties hold the rows."""
    if report.parties is None:
        return []
    stated, number = report.parties["colluding"], report.parties["number"]
    together = f", even together with {stated} of the parties" if stated else ", not against another party"
    return [
        f"The rows lie with {number} parties, and nobody else saw them or the votes of one party: sums of all parties' "
        f"masked votes were read. The promise holds against whoever reads the sums{together}."
    ]


def uncovered(report: Report) -> list[str]:
    """Return what the promise does not cover."""
    if not report.opens_rows:
        return [_ELSEWHERE, "test and public rows: they are used as they are"]
    others = "other rows of the same person: each row is protected for itself"
    if report.plan.protects == "person":
        others = "rows of a person beyond the declared number per person: they are not used"
    declared = ["the declared number of private rows: it is public"] if "training" in report.plan.kinds else []
    liars = ["parties that send made-up votes: the sum is then wrong, though no less private"] if report.parties else []
    return [
        *declared,
        *liars,
        _ELSEWHERE,
        "what is true of the whole group rather than of one member (for example how frequent a class is)",
        others,
        "the task description, the labels and the settings: whoever wrote them should not have read them off the rows",
        "test and public rows: they are used as they are",
        "other runs on the same dataset: losses add up, and the budget book keeps the sum",
    ]


def _unit(protects: str) -> str:
    return "one person with all of their used rows" if protects == "person" else "one row: one text with its label"


def _short(protects: str) -> str:
    return "person" if protects == "person" else "row"


def _neighbours(protects: str, adjacency: str) -> str:
    whose = "that person's rows" if protects == "person" else "that row"
    if adjacency == "replace_one":
        return f"What this run shares is nearly as likely had {whose} been exchanged for any other."
    return f"What this run shares is nearly as likely with {whose} as without."


def _shown(share: float) -> str:
    return "99.99 % or more" if share > 0.9999 else f"{100 * share:.2f} %" if share > 0.99 else f"{100 * share:.1f} %"


def _one_in(delta: float) -> str:
    return "zero" if delta <= 0 else f"1 in {round(1 / delta):,}"
