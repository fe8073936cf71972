"""Stop a run before it wastes a release on too few usable texts of a class.

A release has its full cost even for a few texts. The check counts synthetic texts alone, hence stopping reveals nothing
about the private records.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from connectors.interfaces.errors import TooFewTextsError
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.writing.cleaning import normalised
from tasks.writing.forms import form_of
from tasks.writing.prompts import TaskCard

MIN_TEXTS: Final = 2
"""Default number of texts of a class that a release needs: with one text there is nothing to choose."""

CLASSES_LISTED: Final = 6
"""Classes that the message lists one by one."""

Needed = Mapping[str, int]
"""Usable texts that a release needs of each class; a class without an entry needs `MIN_TEXTS`."""


@dataclass(slots=True)
class ClassCount:
    """Counts of one class: usable texts, requested texts, cleaning reasons by model."""

    texts: set[str] = field(default_factory=set)
    requested: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    reasons: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def different_texts(card: TaskCard, shown: int) -> dict[str, int]:
    """Return the different texts of each class that a release needs whose best ones are `shown` in a prompt."""
    number = shown
    # A class may have fewer different words than a prompt shows; the examples are then all of them.
    if form_of(card.form).repeats:
        number = MIN_TEXTS
    return dict.fromkeys(card.label_names, number)


def require_usable(
    tools: Tools, written: Sequence[TextTable], needed: Needed = MappingProxyType({})
) -> None:
    """Raise TooFewTextsError if a class has too few usable texts, or no text exists.

    `needed`: minimum by class. Equal texts of a class count once, as in a vote. A class of which the run requests fewer
    texts than `needed`, such as a rare one of noisy label counts, needs all of these. A resumed run requests the
    missing texts again.
    """
    counts = count_usable(tools, written)
    short = {
        label: count
        for label, count in counts.items()
        if len(count.texts) < _least(label, count, needed)
    }
    if short or not any(table.samples.rows for table in written):
        _stop(tools, written, counts, short, needed)


def count_usable(tools: Tools, written: Sequence[TextTable]) -> dict[str, ClassCount]:
    """Return the requested, completed and usable texts of each class."""
    counts: defaultdict[str, ClassCount] = defaultdict(ClassCount)
    for table in written:
        samples = tools.artifacts.read_table(table.samples, ["label", "plm", "text"])
        for label, plm, text in zip(samples["label"], samples["plm"], samples["text"], strict=True):
            count = counts[str(label)]
            count.texts.add(normalised(text))
            count.answers[str(plm)] += 1
            count.requested += 1
            # An empty entry: a model without a rejected answer is listed, too.
            count.reasons[str(plm)].update()
        info = tools.artifacts.info(table.samples)
        for label, missing in info.get("shortfall", {}).items():
            counts[label].requested += missing
            counts[label].reasons[table.plm].update()
        for label, reasons in info.get("unusable", {}).items():
            counts[label].answers[table.plm] += sum(reasons.values())
            counts[label].reasons[table.plm].update(reasons)
    return counts


def stops_of(tools: Tools, samples_path: str) -> int:
    """Return how often the texts of this table have stopped a run."""
    text = tools.artifacts.read_text(_stops_path(samples_path))
    if not text:
        return 0
    return int(json.loads(text)["stops"])


def _least(label: str, count: ClassCount, needed: Needed) -> int:
    # Of a class of few texts all are needed, or a rare class would stop every run.
    return min(needed.get(label, MIN_TEXTS), count.requested)


def _stop(
    tools: Tools,
    written: Sequence[TextTable],
    counts: Mapping[str, ClassCount],
    short: Mapping[str, ClassCount],
    needed: Needed,
) -> None:
    latest = max((table.iteration for table in written), default=0)
    # Counted on disk: a resumed run must know that it has to request more than before.
    for table in written:
        if table.iteration == latest and tools.artifacts.info(table.samples).get("shortfall"):
            stops = {"stops": stops_of(tools, table.samples.path) + 1}
            tools.artifacts.write_text(_stops_path(table.samples.path), json.dumps(stops))
    down = "".join(
        f" {table.plm} is down: {table.down.rstrip('.')}." for table in written if table.down
    )
    raise TooFewTextsError(
        f"{len(short)} of {len(counts)} classes have too few usable texts: {_list_classes(short, needed)}.{down} "
        f"Nothing was released for them: epsilon is unchanged. Read runs/{tools.run_id}/iteration={latest}/plm=*/"
        "failures.parquet and correct the model's address, options or prompt; a resumed run requests the missing texts"
    )


def _list_classes(short: Mapping[str, ClassCount], needed: Needed) -> str:
    listed = [
        f"'{label}' has {len(count.texts)} of {_least(label, count, needed)} ({_list_models(count)})"
        for label, count in list(short.items())[:CLASSES_LISTED]
    ]
    rest = len(short) - len(listed)
    if rest:
        listed.append(f"and {rest} more")
    return "; ".join(listed)


def _list_models(count: ClassCount) -> str:
    return ", ".join(
        _list_reasons(plm, count.answers[plm], reasons) for plm, reasons in count.reasons.items()
    )


def _list_reasons(plm: str, answers: int, reasons: Counter[str]) -> str:
    unusable = reasons.total()
    if not answers and not unusable:
        return f"{plm}: no answers"
    if not unusable:
        return f"{plm}: {answers} usable"
    if len(reasons) == 1:
        return f"{plm}: {unusable} of {answers} answers: {next(iter(reasons))}"
    listed = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    return f"{plm}: {unusable} of {answers} answers: {listed}"


def _stops_path(samples_path: str) -> str:
    return samples_path.rsplit("/", 1)[0] + "/stops.json"
