"""Text of reports: formatted numbers, the verdict and the privacy guarantee in plain language."""

import math
from collections.abc import Mapping
from typing import Final

from connectors.interfaces.counts import counted

# Imported under its own name, which marks it as exported: the pages name it words.duration.
from connectors.interfaces.counts import duration as duration
from connectors.interfaces.models import Usage
from tasks.reporting.run_record import RunRecord

ABSENT = "not measured"
NOT_RECORDED = "not recorded"
_EXAMPLE_PRIOR = 0.01
_ROUNDING = 1e-9
_TRAINING_DATA = "the training data of the language models, which the models may repeat"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with `digits` decimals, or 'not measured' for None."""
    if value is None or math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return "infinite"
    return f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    """Return an integer with thousands separators."""
    if value is None:
        return ABSENT
    return f"{value:,}"


def percent(value: float | None) -> str:
    """Return a share as a percentage."""
    if value is None or math.isnan(value):
        return ABSENT
    return f"{100 * value:.1f} %"


def dollars(value: float | None) -> str:
    """Return an amount in dollars, with four decimals below 10 cents."""
    if value is None:
        return ABSENT
    # A run with a small model costs less than a cent; two decimals would show it as free.
    if 0 != value < 0.1:
        return f"${value:.4f}"
    return f"${value:,.2f}"


def money(usage: Usage) -> str:
    """Return the cost of calls and the estimated part of it."""
    if not usage.estimated_dollars:
        return dollars(usage.dollars)
    return f"{dollars(usage.dollars)}, of which {dollars(usage.estimated_dollars)} estimated"


def latency(seconds: float | None) -> str:
    """Return the duration of a call."""
    if seconds is None:
        return ABSENT
    if seconds < 10:
        return f"{seconds:.2g} s"
    return f"{seconds:.0f} s"


def unreported(usage: Mapping[str, Usage]) -> list[str]:
    """Return one sentence per language model with estimated token counts."""
    return [
        f"{plm}: the server did not report the tokens of {count(cost.estimated_calls)} calls. Those tokens, and "
        f"{dollars(cost.estimated_dollars)} of the cost, are estimated from bytes."
        for plm, cost in usage.items()
        if cost.estimated_calls
    ]


def epsilon(value: float | None) -> str:
    """Return a privacy loss; 'infinite' if it has no bound."""
    if value is None or math.isinf(value):
        return "infinite"
    return f"{value:.4g}"


def loss(value: float | None, delta: float, protects: str) -> str:
    """Return a privacy loss with its delta and its unit; older runs have no unit."""
    return f"epsilon {epsilon(value)} at delta {delta:g}" + (f" per {protects}" if protects else "")


def added(report: RunRecord) -> str:
    """Return the epsilon that a run added to the budget."""
    if report.releases_charged is None:
        return NOT_RECORDED
    return epsilon(report.epsilon_added)


def charged(report: RunRecord) -> str:
    """Return the number of releases that a run charged and reused."""
    if report.releases_charged is None:
        return NOT_RECORDED
    return f"{report.releases_charged} charged, {report.releases - report.releases_charged} reused"


REASONS: Final = {
    "copied_example": "copy of an example in its prompt",
    "duplicate": "duplicate",
    "error": "failed call",
    "exhausted": "no further recorded text",
    "format": "data, markup or code",
    "meta": "remarks about the task",
    "prompt_echo": "copy of the prompt",
    "surplus": "more than needed",
    "too_short": "too short",
    "wrong_language": "wrong language",
}
"""Why a text was left out, for people; the other codes are words."""


def reasons(failures: Mapping[str, Mapping[str, int]]) -> str:
    """Return the rejection reasons over all models, most frequent first."""
    total: dict[str, int] = {}
    for of_plm in failures.values():
        for reason, times in of_plm.items():
            total[reason] = total.get(reason, 0) + times
    # By name where the numbers are equal, so that equal reports have equal pages.
    ranked = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{REASONS.get(reason, reason)} {times:,}" for reason, times in ranked if times]
    return ", ".join(shown) or "none"


def certainty(loss: float, prior: float = 0.5) -> float:
    """Return the maximum posterior belief that a record is in the data, from a prior.

    Bayes with odds times e^epsilon. For a prior of one half this is e^epsilon / (1 + e^epsilon).
    """
    odds = math.log(prior / (1 - prior)) + loss
    # exp(-odds) would be larger than the largest float.
    if odds < -700:
        return 0.0
    return 1 / (1 + math.exp(-odds))


SCALE = {
    "strong": "epsilon below 1",
    "moderate": "1 to 4, common in publications",
    "weak": "above 4",
}
"""Steps of protection and their ranges."""


def strength(loss: float) -> str:
    """Return the step of protection of a privacy loss."""
    # An accounted loss of 4 may exceed 4 in its last digits.
    return list(SCALE)[(loss >= 1) + (loss > 4 + _ROUNDING)]


def protection(report: RunRecord) -> str:
    """Return the greatest certainty that an attacker can reach, in one sentence; empty without a promise."""
    if report.not_private or not report.opens_rows:
        return ""
    sure = _shown(certainty(report.epsilon_spent or 0.0))
    return (
        f"Protection of each {report.protects}: an attacker with a 50 % belief that it is in the private data "
        f"becomes at most {sure} sure."
    )


def verdict(report: RunRecord) -> str:
    """Return the result in sentences: accuracies against their references, privacy loss."""
    useful = report.usefulness
    privacy = _privacy_of(report)
    if useful is None:
        return f"The classifier was not evaluated, because the run had no test rows. {privacy}"
    low, high = useful.run.interval
    trained = "The classifier"
    if useful.run.texts is not None:
        trained = "A new classifier of the exported texts"
    result = (
        f"{useful.of_student(trained)} is right on {percent(useful.run.value)} of the {useful.unit} ({100 * low:.0f} "
        f"to {100 * high:.0f} %)"
    )
    if not useful.above_chance:
        return (
            f"{result}: not better than chance ({percent(useful.chance)}). Do not use it. {privacy}"
        )
    base = useful.baseline
    compared = f"chance is {percent(useful.chance)}"
    if base is not None:
        gain = 100 * (base.guided.value - base.floor.value)
        points = f"{abs(gain):.1f} points {'more' if gain > 0 else 'less'}"
        if points.startswith("0.0 "):
            points = "no more"
        compared = f"with equally many texts, {points} than the same models without private records"
        if base.guided.loss is not None:
            compared = (
                f"with equally many texts, its loss is {base.guided.loss:.2f} nats per word, that of the same models "
                f"without private records {base.floor.loss:.2f}"
            )
    sentences = [f"{result}; {compared}."]
    if useful.adapted is not None:
        sentences.append(
            f"The run's classifier, which also reads {useful.reads}, reaches {percent(useful.adapted.value)}."
        )
    if useful.release is not None:
        sentences.append(f"The release without any text reaches {percent(useful.release.value)}.")
    return " ".join([*sentences, privacy])


def measured_gain(report: RunRecord) -> str:
    """Return what the private records gained over the best floor, with its interval; empty if it was not measured."""
    if report.usefulness is None or not report.opens_rows:
        return ""
    gain = report.usefulness.gain
    if gain is None:
        return ""
    return (
        f"{gain.points:+.1f} points ({gain.low:+.1f} to {gain.high:+.1f}) over the best floor, {gain.floor}: "
        f"{gain.verdict}."
    )


def _privacy_of(report: RunRecord) -> str:
    if report.not_private:
        return "It is NOT PRIVATE: do not share it."
    if not report.opens_rows:
        return "No private record was opened: epsilon is 0."
    return f"Its privacy loss is {loss(report.epsilon_spent, report.delta, report.protects)}."


def promise(report: RunRecord) -> list[str]:
    """Return the privacy guarantee of a run, one topic per entry."""
    if not report.opens_rows:
        return [
            "No private rows were opened. The result does not depend on any private text, epsilon is 0, and the "
            "privacy ledger has no entry for this run.",
        ]
    if report.not_private:
        return [
            "This run used no noise (epsilon is infinite). Nothing is promised: the texts, the weights and the "
            "student may reveal private rows. Do not share them.",
        ]
    loss = report.epsilon_spent or 0.0
    unit = "one row: one text with its label"
    member = "row"
    if report.protects == "person":
        unit = "one person with all of their used rows"
        member = "person"
    odds = "zero"
    if report.delta > 0:
        odds = f"1 in {round(1 / report.delta):,}"
    topics = [
        f"The protected unit is {unit}. {_neighbours(report.protects, report.adjacency)}",
        f"The privacy loss of this run's output is epsilon {epsilon(loss)}, the total of the "
        f"{counted(report.releases, 'release')} that it depends on. The run added epsilon {added(report)} to "
        f"the budget ({charged(report)}). Assume an attacker who knows every other private row, sees "
        "everything that this run shares, and starts with a 50 % belief that a given "
        f"{member} is in the data. The attacker can become at most "
        f"{_shown(certainty(loss))} sure. An attacker who starts at 1 % reaches at most "
        f"{_shown(certainty(loss, _EXAMPLE_PRIOR))}.",
        f"Delta {report.delta:g}: the guarantee can fail with a probability of at most {odds}.",
        "The guarantee holds against any additional knowledge, now or in the future. It covers everything computed "
        f"from {report.affected}.",
    ]
    if report.public_rows:
        topics.append(f"The {report.public_rows}, not about all rows of the source.")
    return [*topics, *_among_parties(report)]


def _among_parties(report: RunRecord) -> list[str]:
    """Return against whom the guarantee holds if several parties hold the rows."""
    if report.parties is None:
        return []
    colluding = report.parties["colluding"]
    number = report.parties["number"]
    # Each party reads the sums too, and knows its own noise: without spare noise it sees less noise than promised.
    readers = ", not against another party"
    if colluding:
        readers = f", even together with {colluding} of the parties"
    return [
        f"The rows are distributed over {number} parties. Nobody else saw them or the votes of one party, only sums of "
        f"all parties' masked votes. The guarantee holds against anyone who reads the sums{readers}."
    ]


def uncovered(report: RunRecord) -> list[str]:
    """Return the limits of the guarantee."""
    if not report.opens_rows:
        return [_TRAINING_DATA, "test and public rows: they are used without protection"]
    others = "other rows of the same person: each row is protected separately"
    if report.protects == "person":
        others = "rows of a person above the declared number per person: they are not used"
    limits = []
    if "training" in report.kinds:
        limits.append("the declared number of private rows: it is public")
    if report.parties:
        limits.append("parties that send made-up votes: the sum is then wrong, but still private")
    return [
        *limits,
        _TRAINING_DATA,
        "facts about the whole group rather than one member (for example the frequency of a class)",
        others,
        "the task description, the labels and the settings: their author must not derive them from the rows",
        "test and public rows: they are used without protection",
        "other runs on the same dataset: losses add up, and the privacy ledger records the total",
    ]


def _neighbours(protects: str, adjacency: str) -> str:
    whose = "that row"
    if protects == "person":
        whose = "that person's rows"
    if adjacency == "replace_one":
        return f"The output of this run would be nearly as likely if {whose} were replaced by any other."
    return f"The output of this run is nearly as likely with {whose} as without."


def _shown(share: float) -> str:
    # Never rounded up to 100 %: no finite epsilon makes an attacker certain.
    if share > 0.9999:
        return "99.99 % or more"
    if share > 0.99:
        return f"{100 * share:.2f} %"
    return f"{100 * share:.1f} %"
