"""The report of a run as one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from connectors.interfaces.counts import counted
from connectors.interfaces.ledger import Charge
from connectors.interfaces.models import Usage
from tasks.metrics.iteration_record import IterationRecord
from tasks.metrics.registry import Metric, all_metrics, find_metric
from tasks.metrics.usefulness import FLOORS
from tasks.reporting import plots
from tasks.reporting import text as words
from tasks.reporting.run_record import RunRecord
from tasks.reporting.templates import template
from tasks.reporting.text_browser import TextBrowser, browse
from tasks.reporting.text_map import map_plot, texts_by_group

if TYPE_CHECKING:
    import pandas as pd


def render(report: RunRecord, rows: pd.DataFrame | None = None) -> str:
    """Return the page of a run; equal reports and texts yield equal pages.

    Args:
        report: facts of the run.
        rows: text, label, plm and iteration of all synthetic texts, to browse; without them the page shows no text.
    """
    labelled = [metric for metric in all_metrics() if metric.label]
    metrics = [
        metric
        for metric in labelled
        if any(facts.value(metric.name) is not None for facts in report.iterations)
    ]
    browser = None if rows is None or rows.empty else browse(rows)
    return template("report.html.j2").render(
        report=report,
        words=words,
        figures=_figures(report),
        key_numbers=_key_numbers(report),
        charges=_grouped(report.charges),
        iterations=[_cells(facts, metrics) for facts in report.iterations],
        columns=(
            "iteration",
            "samples",
            *[metric.label for metric in metrics],
            "epsilon",
            "missing",
            "left out",
        ),
        notes=[metric.note for metric in metrics if metric.note],
        quality=ByClass(()) if browser is None else _quality(browser),
        scores=_scores_by_class(report),
        verdict=words.verdict(report),
        floors=FLOORS,
        browser=browser,
        on_map=_texts_on_map(report) if rows is not None else "",
        total=sum(report.usage.values(), Usage()),
    )


def _texts_on_map(report: RunRecord) -> str:
    """Return the texts of the map's points as data of the page; empty without a map of texts."""
    if report.map is None or not report.map.texts:
        return ""
    return Markup(texts_by_group(report.map))  # noqa: S704 - it escapes the texts


MAX_CLASSES = 20
"""Classes that a table shows at once; of more it shows the worst, and folds the others."""
WORST_CLASSES = 10


@dataclass(frozen=True, slots=True)
class ByClass:
    """Rows of a table by class, each with the name and its values in words; `folded` ones are behind a click."""

    shown: Sequence[tuple[str, ...]]
    folded: Sequence[tuple[str, ...]] = ()


def _by_class(rows: Mapping[str, tuple[str, ...]], badness: Mapping[str, float]) -> ByClass:
    """Return all rows in their order; of many classes the worst ones first, the others folded."""
    if len(rows) <= MAX_CLASSES:
        return ByClass([(name, *cells) for name, cells in rows.items()])
    ranked = sorted(rows, key=lambda name: -badness[name])
    worst = [(name, *rows[name]) for name in ranked[:WORST_CLASSES]]
    others = [(name, *cells) for name, cells in rows.items() if name not in ranked[:WORST_CLASSES]]
    return ByClass(worst, others)


def _quality(browser: TextBrowser) -> ByClass:
    """Return texts, median words and near copies of each class; many near copies are bad."""
    rows = {
        str(row["name"]): (
            words.count(row["texts"]),
            f"{row['words']:g}",
            words.percent(row["copies"]),
        )
        for row in browser.classes
    }
    badness = {str(row["name"]): float(row["copies"]) for row in browser.classes}
    # A class of few texts among very many may have no searched one.
    return _by_class(rows, {name: 0.0 if math.isnan(bad) else bad for name, bad in badness.items()})


def _scores_by_class(report: RunRecord) -> ByClass:
    """Return precision, recall, F1 and test rows of each class; a low F1 is bad, and none without test rows."""
    scores = report.scores
    if scores is None or not scores.per_class:
        return ByClass(())
    rows = {}
    badness = {}
    for name, score in scores.per_class.items():
        count = score.get("rows")
        values = [score.get(key) for key in ("precision", "recall", "f1")]
        badness[name] = 1 - (values[-1] or 0.0)
        # Such a class has an F1 of 0, and says nothing about the classifier.
        if count == 0:
            values = [None] * len(values)
            badness[name] = -1.0
        test_rows = words.ABSENT if count is None else words.count(int(count))
        rows[name] = (*map(words.number, values), test_rows)
    return _by_class(rows, badness)


def _cells(facts: IterationRecord, metrics: Sequence[Metric]) -> tuple[str, ...]:
    return (
        str(facts.iteration),
        words.count(facts.total),
        *(_measured(facts, metric) for metric in metrics),
        words.epsilon(facts.epsilon),
        words.count(sum(facts.shortfall.values())),
        words.reasons(facts.failures),
    )


def _measured(facts: IterationRecord, metric: Metric) -> str:
    value = facts.value(metric.name)
    return words.percent(value) if metric.percent else words.number(value)


def _phrases_used(report: RunRecord) -> list[tuple[str, str, str]]:
    """Return the share of the phrases of prompts that occur in the texts; nothing if no prompt requested any."""
    requested = sum(sum(facts.phrases.values()) for facts in report.iterations)
    used = sum(sum(facts.phrases_used.values()) for facts in report.iterations)
    if not requested:
        return []
    remark = f"{used:,} of {counted(requested, 'phrase')} of the prompts occur in the texts"
    return [("phrases used", words.percent(used / requested), remark)]


def _key_numbers(report: RunRecord) -> list[tuple[str, str, str]]:
    """Return the measured key figures as (name, value, remark)."""
    scores = report.scores
    last = report.iterations[-1] if report.iterations else None
    cost = sum(report.usage.values(), Usage())
    unit = f"per {report.protects} at delta {report.delta:g}; " if report.opens_rows else ""
    numbers = [
        ("accuracy", words.percent(scores.accuracy if scores else None), _accuracy_remark(report)),
        (
            "loss",
            words.number(scores.next_word_loss if scores else None),
            "nats per word, lower is better",
        ),
        ("macro F1", words.number(scores.macro_f1 if scores else None), "mean over classes"),
        (
            "FID",
            _measured(last, find_metric("fid")) if last else words.ABSENT,
            f"MMD {words.number(last.mmd if last else None)} (0: equal distributions)",
        ),
        (
            "epsilon",
            words.epsilon(report.epsilon_spent),
            f"{unit}privacy loss of this run's output, configured {words.epsilon(report.epsilon)}",
        ),
        ("added to the budget", words.added(report), f"releases: {words.charged(report)}"),
        (
            "texts",
            words.count(report.n_synthetic),
            f"by {counted(len(report.plms), 'language model')}",
        ),
        *_phrases_used(report),
        ("cost", words.money(cost), f"{words.count(cost.calls)} calls"),
    ]
    return [entry for entry in numbers if entry[1] != words.ABSENT]


def _accuracy_remark(report: RunRecord) -> str:
    useful = report.usefulness
    if useful is None:
        return "student on test rows"
    low, high = useful.run.interval
    return f"{100 * low:.0f}-{100 * high:.0f} %, chance {words.percent(useful.chance)}"


def _grouped(charges: Sequence[Charge]) -> list[tuple[int, Charge]]:
    """Return consecutive equal charges once with their number."""
    groups: list[tuple[int, Charge]] = []
    for charge in charges:
        if groups and groups[-1][1] == charge:
            groups[-1] = (groups[-1][0] + 1, charge)
        else:
            groups.append((1, charge))
    return groups


FIGURES = {
    "fid": (
        plots.fid_accuracy_plot,
        "FID and accuracy over iterations",
        "The table of iterations has the values.",
    ),
    "weights": (
        plots.weights_plot,
        "Weights of the language models",
        "The table of new texts has the values.",
    ),
    "balance": (
        plots.balance_plot,
        "Class balance",
        "Class shares: noisy counts of private rows, selected texts, test rows.",
    ),
    "confusion": (
        plots.confusion_plot,
        "Confusion matrix",
        "Numbers of test rows by true and predicted class, in the order of the task's classes.",
    ),
    "map": (
        map_plot,
        "Map of synthetic texts and test rows",
        "Each point is the embedding of a text on two dimensions, coloured by class.",
    ),
}
"""Figures of the page, with caption and alternative text."""


def _figures(report: RunRecord) -> dict[str, dict[str, str]]:
    """Return the figures that have data, with caption and alternative text."""
    drawn = {name: plot(report, "svg") for name, (plot, *_) in FIGURES.items()}
    captions = {name: caption for name, (_, caption, _) in FIGURES.items()}
    captions["fid"] = plots.fid_accuracy_caption(report)
    return {
        name: {"svg": Markup(svg.decode()), "caption": captions[name], "alt": FIGURES[name][2]}  # noqa: S704
        for name, svg in drawn.items()
        if svg
    }
