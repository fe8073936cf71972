"""The page of a reproduced paper: claims with their verdicts, figures, environment and data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connectors.interfaces.counts import counted, duration
from tasks.metrics.comparison import CONFIDENCE, Difference, Verdict
from tasks.reporting.compare_plots import drawings
from tasks.reporting.compare_report import DIGITS, UNNOISED, UNNOISED_HEADS, Table, tables
from tasks.reporting.compare_results import NOT_PRIVATE, Comparison
from tasks.reporting.templates import template

VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "cannot be seen")
NOT_JUDGED = "not judged"
HEADS = ("claim", "metric", "column", "published", "ours", "p (Holm)", "seeds", "verdict")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim with its measured difference.

    Attributes:
        published: the published difference; None where it is drawn and not printed.
        ours: the measured difference, in the direction of the claim's sentence; None before it is measured.
        p: p-value of `ours`, adjusted for the claims of the item (Holm 1979).
        seeds: number of seeds of the comparison.
        is_unnoised: True if one of the two results was computed on private rows without noise.
    """

    claim: str
    metric: str
    column: str
    published: float | None
    ours: Difference | None
    p: float | None
    verdict: Verdict
    seeds: int
    is_unnoised: bool = False

    @property
    def is_judged(self) -> bool:
        """True if every seed took part in a verdict; one seed has no p-value, and judges nothing."""
        if self.ours is None or self.ours.p is None:
            return False
        return self.ours.pairs == self.seeds

    @property
    def marked_text(self) -> str:
        """The claim, marked if one of the two results has no noise."""
        return f"{self.claim} ({NOT_PRIVATE})" if self.is_unnoised else self.claim

    @property
    def verdict_text(self) -> str:
        """The verdict, which is preliminary before all seeds took part."""
        if self.is_judged:
            return self.verdict
        if self.ours is None or self.ours.p is None:
            return NOT_JUDGED
        return f"{self.verdict} so far"


@dataclass(frozen=True, slots=True)
class MeasuredComparison:
    """The results of a comparison for an item.

    Attributes:
        name: name of its configuration.
        judgements: claims of the item.
        cells: number of cells; `finished` of them have a result.
        failures: names of failed cells, with their errors.
        seconds: sum over the runs of all finished cells.
        problem: why it was not run.
        remark: what a reader must know about it.
        address: page of the comparison, relative to this one; empty without one.
        drawn: metrics whose figures the page shows.
    """

    name: str
    comparison: Comparison
    judgements: tuple[Judgement, ...]
    cells: int
    finished: int
    seconds: float
    failures: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    remark: str = ""
    address: str = ""
    drawn: tuple[str, ...] = ()

    @property
    def is_finished(self) -> bool:
        """True if all cells have a result."""
        return self.finished == self.cells


@dataclass(frozen=True, slots=True)
class ReproducedItem:
    """Tables and figures of a paper, with the comparisons that measure them, or the reason why none does."""

    name: str
    about: str
    comparisons: tuple[MeasuredComparison, ...]
    reason: str = ""

    @property
    def anchor(self) -> str:
        """Name of its section of the page."""
        return self.name.lower().replace(" ", "-").replace(",", "")

    @property
    def judgements(self) -> list[Judgement]:
        """Claims of all comparisons."""
        return [claim for entry in self.comparisons for claim in entry.judgements]

    @property
    def state(self) -> str:
        """The verdicts of its claims by number; before that, why there are none."""
        if not self.comparisons:
            return "not measured here"
        judgements = self.judgements
        if not judgements:
            finished = all(entry.is_finished for entry in self.comparisons)
            return "drawn; no claim is printed" if finished else "not finished"
        return verdict_counts(judgements)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A public file that was read; `is_recipe`: its rows are those that the recipe states, None if it states none."""

    path: str
    rows: int
    digest: str
    recipe: str
    is_recipe: bool | None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """All that the page of a reproduction shows."""

    title: str
    citation: str
    command: str
    is_quick: bool
    made: str
    items: tuple[ReproducedItem, ...]
    environment: Mapping[str, str]
    data: tuple[DataFile, ...]
    problems: tuple[str, ...] = ()
    pictures: dict[object, dict[str, bytes]] = field(default_factory=dict, compare=False)
    """Figures that were drawn before, by the results that they show."""

    @property
    def judgements(self) -> list[Judgement]:
        """Claims of all items."""
        return [claim for item in self.items for claim in item.judgements]

    @property
    def is_finished(self) -> bool:
        """True if all cells of all comparisons have a result."""
        return all(entry.is_finished for item in self.items for entry in item.comparisons)

    @property
    def seconds(self) -> float:
        """Sum over the runs of all cells; comparisons share cells, which are counted once."""
        runs = {
            answer.run_id or id(answer): answer.seconds
            for item in self.items
            for entry in item.comparisons
            for answer in entry.comparison.answers
        }
        return sum(runs.values())


def verdict_counts(judgements: Iterable[Judgement]) -> str:
    """Return the number of claims with each verdict: "2 hold, 1 not judged"."""
    counts = Counter(claim.verdict if claim.is_judged else NOT_JUDGED for claim in judgements)
    phrases = {"holds": "hold", "does not hold": "do not hold"}
    parts = []
    for verdict in (*VERDICTS, NOT_JUDGED):
        if counts[verdict]:
            phrase = verdict if counts[verdict] == 1 else phrases.get(verdict, verdict)
            parts.append(f"{counts[verdict]} {phrase}")
    return ", ".join(parts) or "no claims"


def page(result: Reproduction) -> str:
    """Return the HTML page."""
    return template("reproduction.html.j2").render(_values(result))


def markdown(result: Reproduction) -> str:
    """Return the page as Markdown."""
    return template("reproduction.md.j2").render(_values(result)).rstrip() + "\n"


def judgement_cells(claim: Judgement) -> list[str]:
    """Return the cells of one line of the claims."""
    published = "drawn" if claim.published is None else f"{claim.published:+.{DIGITS}f}"
    ours = NOT_JUDGED
    pairs = 0
    if claim.ours is not None:
        pairs = claim.ours.pairs
        ours = difference_text(claim.ours)
    p = p_text(claim.p)
    seeds = f"{pairs} of {claim.seeds}"
    verdict = claim.verdict_text
    return [claim.marked_text, claim.metric, claim.column, published, ours, p, seeds, verdict]


def p_text(p: float | None) -> str:
    """Return a p-value; one that would be rounded to 0 as an upper bound."""
    if p is None:
        return ""
    least = 10.0**-DIGITS
    return f"< {least:.{DIGITS}f}" if p < least else f"{p:.{DIGITS}f}"


def difference_text(ours: Difference) -> str:
    """Return a difference with its interval."""
    text = f"{ours.mean:+.{DIGITS}f}"
    if ours.low is None or ours.high is None:
        return f"{text} (one seed: no interval)"
    return f"{text} [{ours.low:+.{DIGITS}f}, {ours.high:+.{DIGITS}f}]"


def _values(result: Reproduction) -> dict[str, object]:
    """Return the values that both templates show."""
    return {
        "result": result,
        "confidence": CONFIDENCE,
        "heads": HEADS,
        "unnoised": UNNOISED,
        "unnoised_heads": UNNOISED_HEADS,
        "counts": verdict_counts(result.judgements),
        "seconds": duration(result.seconds),
        "lines": judgement_cells,
        "state_of": _state_of,
        "tables_of": _tables_of,
        "figures_of": lambda entry: _figures_of(result, entry),
        "differences_of": _differences_of,
    }


def _state_of(entry: MeasuredComparison) -> str:
    """Return how far a comparison is."""
    text = f"{entry.finished} of {counted(entry.cells, 'cell')}"
    if entry.finished:
        text += f", {duration(entry.seconds)} of runs"
    return text


def _tables_of(entry: MeasuredComparison) -> Sequence[Table]:
    """Return the tables of a comparison; none before its first result."""
    if not entry.comparison.answers:
        return []
    return tables(entry.comparison)


def _figures_of(result: Reproduction, entry: MeasuredComparison) -> dict[str, str]:
    """Return the figures of a comparison as SVG by name."""
    comparison = replace(entry.comparison, metrics=entry.drawn)
    # The page is written after each comparison, and most results are those of the page before.
    answers = tuple((cell.row, cell.column, cell.seed, cell.run_id) for cell in comparison.answers)
    key = (entry.name, comparison.rows, comparison.columns, comparison.metrics, answers)
    if key not in result.pictures:
        result.pictures[key] = drawings(comparison, "svg")
    return {name: picture.decode() for name, picture in result.pictures[key].items()}


def _differences_of(entry: MeasuredComparison) -> list[tuple[str, str]]:
    """Return the rows of a comparison that differ from the published setting."""
    comparison = entry.comparison
    return [(comparison.named(row), text) for row, text in comparison.differs.items()]
