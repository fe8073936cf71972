"""Embedding on a machine that does other work: how much of the fair share of its cores arrives as texts.

The fair share is max-min fair: each busy program has one thread and gets at most one core, this process gets the rest,
and nobody gets less than an equal part. With n cores and k busy programs that is n - k min(1, n / (k + 1)) cores.

As a program (`python -m tests.benchmarks.sharing ours 600`) it is one process that embeds once for each line it reads.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from connectors.embedders.registry import open_embedder
from connectors.interfaces.threads import BLAS, WAITING, usable_cores
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, line
from tests.support.paths import ROOT

BUSY = (1, 2)
BEFORE = "all cores a batch, spinning"
WAYS = {"ours": {}, "before": {"GOMP_SPINCOUNT": "300000", "OPENBLAS_THREAD_TIMEOUT": "26"}}
"""Environments of both ways; the second one's are the defaults of the libraries, stated."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One embedding of all texts: seconds of wall time and of processor time, and the load of the machine."""

    wall: float
    processor: float
    load: float


def fair_share(cores: int, busy: int) -> float:
    """Return the part of the cores that is max-min fair to a process beside `busy` programs of one thread."""
    return (cores - busy * min(1, cores / (busy + 1))) / cores


def sharing(tiny: bool) -> list[Line]:
    """Embed short texts alone, beside one and two busy programs, and in two processes at once, all in turns."""
    count, rounds = (40, 1) if tiny else (600, 5)
    taken: dict[tuple[str, str], list[Turn]] = {}
    with ExitStack() as stack:
        ours, second, before = (stack.enter_context(_process(way, count)) for way in ("ours", "ours", "before"))
        for _ in range(rounds):
            for busy in (0, *BUSY):
                with _busy(busy):
                    for way, process in (("ours", ours), ("before", before)):
                        taken.setdefault((way, f"{busy} busy"), []).extend(_embed([process]))
            taken.setdefault(("ours", "two"), []).append(max(_embed([ours, second]), key=lambda turn: turn.wall))
    return list(_lines(taken, count))


def _lines(taken: dict[tuple[str, str], list[Turn]], count: int) -> Iterator[Line]:
    alone = {way: [turn.wall for turn in taken[way, "0 busy"]] for way in WAYS}
    case = f"{count} short texts"
    note = partial(_note, count=count)
    same = line("sharing", f"{case}, alone", BEFORE, alone["ours"], alone["before"], note(taken["ours", "0 busy"]))
    yield toward(same, "P23-alone", 1 / same.ratio)
    for busy in BUSY:
        share, lines = fair_share(usable_cores(), busy), dict[str, Line]()
        for way in WAYS:
            turns = taken[way, f"{busy} busy"]
            fair = [seconds / share for seconds in alone[way]]
            walls = [turn.wall for turn in turns]
            lines[way] = line("sharing", f"{case}, {busy} busy", f"{share:.2f} of alone", walls, fair, note(turns))
        yield toward(lines["ours"], "P23-busy", 1 / lines["ours"].ratio)
        yield replace(lines["before"], case=f"{case}, {busy} busy, before")
    turns = taken["ours", "two"]
    walls, half = [turn.wall for turn in turns], [2 * seconds for seconds in alone["ours"]]
    two = line("sharing", f"{case}, slower of two", "half of alone", walls, half, note(turns))
    yield toward(two, "P23-runs", 1 / two.ratio)


def _note(turns: Sequence[Turn], count: int) -> str:
    rate, processor = count / median(turn.wall for turn in turns), median(turn.processor for turn in turns)
    loads = [turn.load for turn in turns]
    return f"{rate:,.0f} texts/s, {processor:.2f} s of processor time, load {min(loads):.0f}..{max(loads):.0f}"


def _embed(processes: Sequence["subprocess.Popen[str]"]) -> list[Turn]:
    """Let all processes embed at the same time; return each one's turn."""
    for process in processes:
        print("embed", file=process.stdin, flush=True)
    answers = [process.stdout.readline().split() for process in processes]  # type: ignore[union-attr]
    return [Turn(float(wall), float(processor), os.getloadavg()[0]) for wall, processor in answers]


@contextmanager
def _process(way: str, count: int) -> Iterator["subprocess.Popen[str]"]:
    environment = {name: value for name, value in os.environ.items() if name not in (*WAITING, *BLAS)} | WAYS[way]
    command = [sys.executable, "-m", "tests.benchmarks.sharing", way, str(count)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def _busy(number: int) -> Iterator[None]:
    """Let so many programs of one thread be busy inside the block."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        time.sleep(0.3 if number else 0)
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def _before(embedder: Any, texts: Sequence[str]) -> None:
    """Embed one batch after the other, each by all of torch's threads."""
    model = embedder._loaded
    for batch in embedder._batches(texts):
        embedder._vectors(model, embedder._features(model, [texts[position] for position in batch]))


def _serve(way: str, count: int) -> None:
    """Embed once for each line; write wall and processor seconds."""
    from tests.benchmarks.embed import short_texts

    texts, embedder = short_texts(count), open_embedder("sentence_transformers", "embedded", {"device": "cpu"})
    work = partial(embedder.embed if way == "ours" else partial(_before, embedder), texts)
    work()
    _say("ready")
    for _ in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        work()
        _say(f"{time.perf_counter() - wall} {time.process_time() - processor}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
