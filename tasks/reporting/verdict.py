"""The first lines of a report: what the result is worth, in a sentence and in bars."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.metrics.usefulness import Accuracy
from tasks.reporting import text as words
from tasks.reporting.report_model import Report


@dataclass(frozen=True, slots=True)
class Bar:
    """An accuracy as a bar: value and interval in percent; `kind`: floor, run or plain."""

    name: str
    value: float
    low: float
    high: float
    kind: str
    remark: str = ""


def verdict(report: Report) -> str:
    """Return one sentence: accuracy against its references, privacy loss, cost."""
    useful = report.usefulness
    privacy = _privacy(report)
    if useful is None:
        return f"The classifier was not evaluated, because the run had no test rows. {privacy}"
    low, high = useful.run.interval
    result = (
        f"A classifier trained on these texts is right on {words.percent(useful.run.value)} of the test rows "
        f"({100 * low:.0f} to {100 * high:.0f} %)"
        if report.iterations
        else f"The classifier is right on {words.percent(useful.run.value)} of the test rows "
        f"({100 * low:.0f} to {100 * high:.0f} %)"
    )
    if not useful.above_chance:
        return f"{result}: not better than chance ({words.percent(useful.chance)}). Do not use it. {privacy}"
    if useful.baseline is None:
        return f"{result}; chance is {words.percent(useful.chance)}. {privacy}"
    gain = 100 * (useful.baseline.guided.value - useful.baseline.zero_shot.value)
    compared = f"with equally many texts, {abs(gain):.0f} points {'more' if gain > 0 else 'less'} than the same models"
    return f"{result}; {compared} without private records. {privacy}"


def _privacy(report: Report) -> str:
    if report.not_private:
        return "It is NOT PRIVATE: do not share it."
    if not report.opens_rows:
        return "No private record was opened: epsilon is 0."
    return f"Its privacy loss is epsilon {words.epsilon(report.happened.epsilon)} at delta {report.plan.delta:g}."


def bars(report: Report) -> list[Bar]:
    """Return chance, the models without private data, and this run; empty without test rows."""
    useful = report.usefulness
    if useful is None:
        return []
    chance = 100 * useful.chance
    shown = [Bar("chance", chance, chance, chance, "floor")]
    if useful.baseline is not None:
        base = useful.baseline
        remark = f"{base.zero_shot.texts:,} texts" if base.zero_shot.texts else ""
        shown.append(_bar("same models without private data", base.zero_shot, "floor", f"{base.student}, {remark}"))
        shown.append(_bar("this run, as many texts", base.guided, "run", f"{base.student}, {remark}"))
    texts = f", {useful.run.texts:,} texts" if useful.run.texts else ""
    shown.append(_bar("this run", useful.run, "run", f"{useful.student}{texts}"))
    return shown


def _bar(name: str, accuracy: Accuracy, kind: str, remark: str) -> Bar:
    low, high = accuracy.interval
    return Bar(name, 100 * accuracy.value, 100 * low, 100 * high, kind, remark)
