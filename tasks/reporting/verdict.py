"""The first lines of a report: the worth of the result, in sentences."""

from __future__ import annotations

from tasks.metrics.usefulness import Accuracy
from tasks.reporting import text as words
from tasks.reporting.run_record import RunRecord


def verdict(report: RunRecord) -> str:
    """Return the result in sentences: accuracies against their references, privacy loss."""
    useful = report.usefulness
    privacy = _privacy(report)
    if useful is None:
        return f"The classifier was not evaluated, because the run had no test rows. {privacy}"
    low, high = useful.run.interval
    trained = "A new classifier of the exported texts" if useful.run.texts is not None else "The classifier"
    result = (
        f"{useful.of_student(trained)} is right on {words.percent(useful.run.value)} of the {useful.unit} "
        f"({100 * low:.0f} to {100 * high:.0f} %)"
    )
    if not useful.above_chance:
        return f"{result}: not better than chance ({words.percent(useful.chance)}). Do not use it. {privacy}"
    base = useful.baseline
    compared = f"chance is {words.percent(useful.chance)}"
    if base is not None:
        gain = 100 * (base.guided.value - base.floor.value)
        points = f"{abs(gain):.1f} points {'more' if gain > 0 else 'less'}"
        compared = f"with equally many texts, {points} than the same models without private records"
        if base.guided.loss is not None:
            compared = (
                f"with equally many texts, its loss is {base.guided.loss:.2f} nats per word, that of the same models "
                f"without private records {base.floor.loss:.2f}"
            )
    sentences = [f"{result}; {compared}."]
    if useful.adapted is not None:
        sentences.append(f"The run's classifier, which also reads {useful.reads}, reaches {_reached(useful.adapted)}.")
    if useful.release is not None:
        sentences.append(f"The release without any text reaches {_reached(useful.release)}.")
    return " ".join([*sentences, privacy])


def _reached(accuracy: Accuracy) -> str:
    return words.percent(accuracy.value)


def _privacy(report: RunRecord) -> str:
    if report.not_private:
        return "It is NOT PRIVATE: do not share it."
    if not report.opens_rows:
        return "No private record was opened: epsilon is 0."
    return f"Its privacy loss is {words.loss(report.epsilon_spent, report.delta, report.protects)}."
