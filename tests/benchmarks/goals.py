"""Goals as ratios, and the table of results: a line names the goals that it measures."""

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
        """Return True if `value` reaches it."""
        return value >= self.bound if self.least else value <= self.bound

    @property
    def target(self) -> str:
        """The bound as a table shows it."""
        return f"{'>=' if self.least else '<='} {self.bound:g}"


GOALS = {
    goal.name: goal
    for goal in (
        Goal("P1", "vote, both ends / float32 matrix product, 10,000 x 100,000", 1.5),
        Goal("P1-small", "vote, both ends / float32 matrix product, up to 1,000 x 6,000", 3.0),
        Goal("P8", "embedding rate / SentenceTransformer.encode, short texts", 1.25, least=True),
        Goal(
            "P8-records",
            "embedding rate of private records / of public texts, short texts",
            0.8,
            least=True,
        ),
        Goal("P15", "wasp --help / bare interpreter with argparse", 8.0),
        Goal("refused", "run / plan of a configuration that is refused, processor seconds", 1.1),
        Goal("again", "finished run started again / its plan, processor seconds", 2.0),
        Goal(
            "P16-64",
            "rate of calls with store and money / rate of the bare SDK, 64 in flight",
            0.9,
            least=True,
        ),
        Goal(
            "P16-256",
            "rate of calls with store and money / rate of the bare SDK, 256 in flight",
            0.9,
            least=True,
        ),
        Goal(
            "P17-one",
            "texts a processor second / bare generate in the better precision, one text a prompt",
            1.4,
            least=True,
        ),
        Goal(
            "P17-four",
            "the same with four texts a prompt",
            4.0,
            least=True,
        ),
        Goal("P18", "chosen precision / the better one: prefill, step, fine-tuning step", 1.05),
        Goal("P24-200", "aug_pe / private-evolution, whole run of 200 texts", 1.0),
        Goal("P24-1000", "aug_pe / private-evolution, whole run of 1,000 texts", 0.6),
        Goal("P24-5000", "aug_pe / private-evolution, whole run of 5,000 texts", 0.6),
    )
}


def toward(entry: Line, name: str, value: float | None = None) -> Line:
    """Return the line as a measurement of a goal; `value`: what was reached, the ratio of the line if None."""
    return replace(
        entry, reached={**entry.reached, GOALS[name].name: entry.ratio if value is None else value}
    )


def verdicts(lines: Sequence[Line]) -> Iterator[tuple[Goal, float | None]]:
    """Return every goal with the worst that was measured of it, None where nothing was."""
    for goal in GOALS.values():
        values = [entry.reached[goal.name] for entry in lines if goal.name in entry.reached]
        yield goal, (min(values) if goal.least else max(values)) if values else None


def table(lines: Sequence[Line]) -> str:
    """Return the goals as a table; nothing but its head where no goal was measured."""
    rows = [f"{'goal':13}  {'wanted':>9}  {'reached':>9}  {'':8}  what"]
    for goal, value in verdicts(lines):
        if value is not None:
            verdict = "met" if goal.met(value) else "NOT MET"
            rows.append(
                f"{goal.name:13}  {goal.target:>9}  {value:>9.3g}  {verdict:8}  {goal.says}"
            )
    rest = ", ".join(goal.name for goal, value in verdicts(lines) if value is None)
    return "\n".join([*rows, f"not measured here: {rest}"] if rest else rows) + "\n"
