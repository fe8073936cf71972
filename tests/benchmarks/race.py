"""Two ways to do one thing, run in turns in one process: a ratio does not change with the machine's mood."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Work = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison: seconds of ours over seconds of `against`, so below 1 is faster.

    `ratio` is the median of the rounds' own ratios, `low` and `high` their range. `note` says what the peer leaves
    out or adds, or how much of what was done per second. `reached`: the goals that it measures (goals.py), by name.
    """

    subject: str
    case: str
    against: str
    ours_seconds: float
    peer_seconds: float
    ratio: float
    low: float
    high: float
    rounds: int
    note: str = ""
    reached: Mapping[str, float] = field(default_factory=dict)


def in_turns(
    arms: Mapping[str, Work],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    rest: float = 0.0,
) -> dict[str, list[float]]:
    """Return the seconds of every arm by `clock`, round by round; the first run of each is not measured.

    rest: seconds of quiet before each; what takes less is then run as long unmeasured, for cores have gone to sleep.
    """
    short = {name for name, work in arms.items() if seconds(work) < rest}
    taken: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(rounds):
        for name, work in arms.items():
            time.sleep(rest)
            awake = time.perf_counter() + rest
            while name in short and time.perf_counter() < awake:
                work()
            taken[name].append(seconds(work, clock))
    return taken


def line(
    subject: str,
    case: str,
    against: str,
    ours: Sequence[float],
    peer: Sequence[float],
    note: str = "",
) -> Line:
    """Return the comparison of the times of rounds that were run in turns."""
    ratios = [mine / theirs for mine, theirs in zip(ours, peer, strict=True)]
    return Line(
        subject=subject,
        case=case,
        against=against,
        ours_seconds=statistics.median(ours),
        peer_seconds=statistics.median(peer),
        ratio=statistics.median(ratios),
        low=min(ratios),
        high=max(ratios),
        rounds=len(ratios),
        note=note,
    )


def seconds(work: Work, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the time of one call: wall time, or that of another clock."""
    started = clock()
    work()
    return clock() - started
