"""What is to be reached, as ratios, and the table of what was: a line names the goals that it measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.benchmarks.race import Line


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio to be reached: at most `bound`, or at least `bound` where `least` says so."""

    name: str
    says: str
    bound: float
    least: bool = False

    def met(self, value: float) -> bool:
        """Tell whether `value` reaches it."""
        return value >= self.bound if self.least else value <= self.bound

    @property
    def wanted(self) -> str:
        """The bound as a table shows it."""
        return f"{'>=' if self.least else '<='} {self.bound:g}"


GOALS = {
    goal.name: goal
    for goal in (
        Goal("P1", "vote, both ends / float32 matrix product, 10,000 x 100,000", 1.5),
        Goal("P1-small", "vote, both ends / float32 matrix product, up to 1,000 x 6,000", 3.0),
        Goal("P8", "embedding rate / SentenceTransformer.encode, short texts", 1.25, least=True),
        Goal("P9", "embedding rate in reduced precision / encode, at most 2 % of vote mass moved", 2.7, least=True),
        Goal("P11", "second pass over unchanged texts / first", 0.02),
        Goal("P12", "fine-tuning epoch on short texts / naive epoch, float32", 0.42),
        Goal("P12-bf16", "the same with bfloat16", 0.20),
        Goal("P13", "scipy sqrtm FID / FID, at least as many rows as dimensions", 2.0, least=True),
        Goal("P13-few", "scipy sqrtm FID / FID, 100 rows of 768", 4.0, least=True),
        Goal("P13-error", "absolute error of FID beside 60 digits", 1e-12),
        Goal("P14", "run with Prefect minus the same without / as many bare no-op async tasks", 1.5),
        Goal("P14-iteration", "milliseconds that a run with Prefect takes more per iteration of nine tasks", 50.0),
        Goal("P14-inside", "Prefect's time beside the steps' work / bare flow run of as many no-op tasks", 1.5),
        Goal("P15", "wasp --help / bare interpreter with argparse", 8.0),
        Goal("P16-64", "rate of calls with store and money / rate of bare aiohttp, 64 in flight", 0.95, least=True),
        Goal("P16-256", "rate of calls with store and money / rate of bare aiohttp, 256 in flight", 0.90, least=True),
        Goal("P17", "threads over the vendor's own client / our connector, 256 in flight", 1.7, least=True),
        Goal("P17-loop", "a plain event loop / a few responses at a time, 64 in flight", 1.02, least=True),
        Goal("P18", "tokens a second of the local generator / bare generate of the same batch", 0.95, least=True),
        Goal("P18-batch", "tokens a second of a batch of 64 / of one", 6.5, least=True),
        Goal("P19-read", "copy of the bytes in memory / mapped read of an embedding artifact", 0.35, least=True),
        Goal("P19-write", "list<halffloat> writer / write of an embedding artifact", 5.0, least=True),
        Goal("P20-group", "votes by class and model / pandas merge and group by", 0.15),
        Goal("P20-top", "best S of each class / the better of duckdb and polars", 0.6),
        Goal("P21", "noise of a release / bare OpenDP", 1.1),
        Goal("P21-share", "noise / embedding, vote and student of one iteration, N = 6,000", 0.01),
        Goal(
            "P23-alone",
            "embedding rate / all cores for each batch with spinning threads, idle machine",
            0.97,
            least=True,
        ),
        Goal("P23-busy", "embedding rate beside busy programs / rate alone x fair share of the cores", 0.8, least=True),
        Goal("P23-runs", "embedding rate of the slower of two processes / half the rate alone", 0.8, least=True),
        Goal("P24", "identity of private rows / two HMACs and 32 minima per text, 100,000 rows", 8.0),
        Goal("P24-seconds", "seconds to register 100,000 private rows", 20.0),
    )
}


def toward(one: Line, name: str, value: float | None = None) -> Line:
    """Return the line as a measurement of a goal; `value`: what was reached, the ratio of the line if None."""
    return replace(one, reached={**one.reached, GOALS[name].name: one.ratio if value is None else value})


def verdicts(lines: Sequence[Line]) -> Iterator[tuple[Goal, float | None]]:
    """Return every goal with the worst that was measured of it, None where nothing was."""
    for goal in GOALS.values():
        values = [one.reached[goal.name] for one in lines if goal.name in one.reached]
        yield goal, (min(values) if goal.least else max(values)) if values else None


def table(lines: Sequence[Line]) -> str:
    """Return the goals as a table; nothing but its head where no goal was measured."""
    rows = [f"{'goal':13}  {'wanted':>9}  {'reached':>9}  {'':8}  what"]
    for goal, value in verdicts(lines):
        if value is not None:
            verdict = "met" if goal.met(value) else "NOT MET"
            rows.append(f"{goal.name:13}  {goal.wanted:>9}  {value:>9.3g}  {verdict:8}  {goal.says}")
    rest = ", ".join(goal.name for goal, value in verdicts(lines) if value is None)
    return "\n".join([*rows, f"not measured here: {rest}"] if rest else rows) + "\n"
