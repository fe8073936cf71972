"""The page on coverage: every item and part of the papers, with the state of its cells and claims."""

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.interfaces.counts import counted
from tasks.metrics.comparison import CONFIDENCE, Difference
from tasks.reporting.compare_report import DIGITS
from tasks.reporting.reproduction import (
    Judgement,
    MeasuredComparison,
    ReproducedItem,
    difference_text,
    p_text,
    verdict_counts,
)
from tasks.reporting.templates import template

MAX_COMMITS = 3
"""Most commits that a line names."""
SHORT = 8
"""Characters of a commit."""
NONE = "none"


@dataclass(frozen=True, slots=True)
class CoveredComparison:
    """A comparison of an item, with the origin of its cells.

    Attributes:
        writers: the language models of its rows, as a phrase; empty without any.
        days: days on which its cells ended, in ISO 8601.
        commits: commits that ran its cells.
    """

    measured: MeasuredComparison
    writers: str
    days: frozenset[str]
    commits: frozenset[str]


@dataclass(frozen=True, slots=True)
class CoveredItem:
    """An item; `options`: of the command that measures it; `published`: its comparisons with the published sizes."""

    item: ReproducedItem
    options: str
    comparisons: tuple[CoveredComparison, ...]
    published: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoveredPaper:
    """A paper on the page.

    Attributes:
        command: the command that measures its items, without options.
        cells: number of cells of all comparisons; `finished` of them have a result.
        other_rows: data files whose rows are not those of their recipes.
        parts: algorithms with their place and their relation to the paper.
    """

    title: str
    citation: str
    command: str
    items: tuple[CoveredItem, ...]
    cells: int
    finished: int
    other_rows: Sequence[str]
    parts: tuple[tuple[str, str, str], ...]

    @property
    def files(self) -> list[str]:
        """Files of configurations, whose settings the page names."""
        names = [
            name
            for covered in self.items
            for name in (*covered.published, *(entry.name for entry in covered.item.comparisons))
        ]
        return sorted({file for name in names if (file := name.rpartition("#")[0])})


def coverage(papers: Sequence[CoveredPaper], commit: str, made: str) -> str:
    """Return the page as Markdown; `made`: the time in ISO 8601."""
    finished = sum(paper.finished for paper in papers)
    values = {
        "papers": papers,
        "commit": commit,
        "made": made[:10],
        "cells": f"{finished:,} of {counted(sum(paper.cells for paper in papers), 'cell')}",
        "confidence": CONFIDENCE,
        "lines_of": _lines,
        "claims_of": _claims,
        "remarks_of": _remarks,
    }
    return template("coverage.md.j2").render(values).rstrip() + "\n"


def _lines(covered: CoveredItem) -> list[list[str]]:
    """Return the lines of an item: one for each comparison."""
    item = covered.item
    contents = item.about
    if covered.published:
        contents += f"; published sizes: {', '.join(map(_setting, covered.published))}"
    options = f"`{covered.options}`" if covered.options else ""
    heads = [item.name, contents, options]
    if not covered.comparisons:
        return [[*heads, NONE, NONE, f"not measured: {item.reason}"]]
    lines = []
    for entry in covered.comparisons:
        measured = entry.measured
        name = _setting(measured.name)
        if entry.writers:
            name += f", texts of {entry.writers}"
        cells = f"{measured.finished} of {measured.cells}"
        state = ", ".join(filter(None, [cells, _days(entry), _commits(entry)]))
        lines.append([*heads, name, state, verdict_counts(measured.judgements)])
        # An item is named once, in the first of its lines.
        heads = [""] * len(heads)
    return lines


def _setting(name: str) -> str:
    """Return the name of a configuration without its file, which the page states once."""
    return f"`{name.rpartition('#')[2]}`"


def _days(entry: CoveredComparison) -> str:
    return " to ".join(dict.fromkeys([min(entry.days), max(entry.days)])) if entry.days else ""


def _commits(entry: CoveredComparison) -> str:
    if len(entry.commits) > MAX_COMMITS:
        return counted(len(entry.commits), "commit")
    return " ".join(sorted(commit[:SHORT] for commit in entry.commits))


def _claims(paper: CoveredPaper) -> list[list[str]]:
    """Return a line for each claim that all seeds judge in some column, with all these columns."""
    columns: dict[tuple[str, str, str, str], list[str]] = {}
    for covered in paper.items:
        for entry in covered.comparisons:
            for claim in entry.measured.judgements:
                if claim.is_judged and claim.ours is not None:
                    name = entry.measured.name
                    key = (covered.item.name, name, claim.marked_text, claim.metric)
                    columns.setdefault(key, []).append(_judged(claim, claim.ours))
    return [
        [item, _setting(name), text, metric, "; ".join(parts)]
        for (item, name, text, metric), parts in columns.items()
    ]


def _judged(claim: Judgement, ours: Difference) -> str:
    parts = [difference_text(ours), f"p {p_text(claim.p)}"]
    if claim.published is not None:
        parts.append(f"published {claim.published:+.{DIGITS}f}")
    return f"{claim.column}: {', '.join(parts)}: **{claim.verdict}**"


def _remarks(paper: CoveredPaper) -> list[str]:
    """Return the remarks on comparisons, each once with its items."""
    items: dict[tuple[str, str], list[str]] = {}
    for covered in paper.items:
        for entry in covered.comparisons:
            if entry.measured.remark:
                key = (entry.measured.name, entry.measured.remark)
                items.setdefault(key, []).append(covered.item.name)
    return [f"{', '.join(at)}, {_setting(name)}: {text}" for (name, text), at in items.items()]
