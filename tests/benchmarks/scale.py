"""`make bench-scale`: what an iteration costs as texts and private rows grow; each point in a process of its own.

Five incremental votes of a set that grows by a fifth each time, then what follows the last: noise, weights, selection.
Candidates lie in a file that is mapped, 384 dimensions in float32. Writes a table, a picture and JSON to tests/output.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise, calibrate
from tasks.private.nearest.search import rank
from tasks.private.noise.discrete import add_discrete_gaussian
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import _count
from tasks.reporting.plot_style import MARKERS, PALETTE, picture
from tasks.selection.examples import select
from tasks.selection.weights import weigh
from tests.support.paths import OUTPUT

DIMENSION = 384
ITERATIONS = 5
CLASSES = 10
BLOCK = 20_000
TEXTS = ((100, 1_000), (6_000, 20_000, 100_000, 300_000, 1_000_000))
ROWS = ((1_000, 10_000, 100_000), (6_000,))
ALSO = ((10_000, 100_000),)
NOISE: Noise = calibrate(VotePrivacy(4.0, 1e-5, ITERATIONS))


@dataclass(frozen=True, slots=True)
class Point:
    """What one size costs, in seconds: the votes one by one, then noise, weights and selection of the last."""

    rows: int
    texts: int
    votes: Sequence[float]
    noise: float
    weigh: float
    select: float
    peak_gigabytes: float

    @property
    def whole(self) -> float:
        """Seconds of all votes and of what follows the last one."""
        return sum(self.votes) + self.noise + self.weigh + self.select


def candidates_file(place: Path, size: int) -> Path:
    """Write unit vectors around fifty centres, block by block; return their file."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((50, DIMENSION), np.float32)
    mapped = np.lib.format.open_memmap(place, mode="w+", dtype=np.float32, shape=(size, DIMENSION))
    for start in range(0, size, BLOCK):
        part = mapped[start : start + BLOCK]
        part[:] = centres[rng.integers(0, 50, len(part))] + rng.standard_normal(part.shape, np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    mapped.flush()
    return place


def measured(file: Path, rows: int, texts: int) -> Point:
    """Carry out the votes on the first `texts` vectors of the file; the rows are noisy copies of some of them.

    The loops of large votes are loaded before, which takes half a second.
    """
    vectors = np.load(file, mmap_mode="r")[:texts]
    rng = np.random.default_rng(1)
    names = np.array([f"class {code}" for code in range(CLASSES)], dtype=object)
    mine = vectors[np.sort(rng.integers(0, texts, rows))] + rng.standard_normal((rows, DIMENSION), np.float32) / 20
    ballot = Ballot(mine, names[rng.integers(0, CLASSES, rows)].tolist(), 8)
    labels = names[np.arange(texts) * CLASSES * ITERATIONS // texts % CLASSES]
    rank(ballot, Candidates(np.arange(1), labels[:1], vectors[:1]), way="compiled")
    votes, running = [], None
    for step in range(1, ITERATIONS + 1):
        part = texts * step // ITERATIONS
        started = time.perf_counter()
        standing = Candidates(np.arange(part), labels[:part], vectors[:part])
        running = rank(ballot, standing, running)
        counts = _count(ballot, standing, NOISE, running).counts
        votes.append(time.perf_counter() - started)
    return Point(rows, texts, votes, *_after(counts, labels), _peak())


def _peak() -> float:
    """Return the most memory that this process had, mapped files included, in GB."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**30
    # Not ru_maxrss: on Linux that begins with the memory of the process that started this one.
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**20


def _after(counts: Any, labels: Any) -> tuple[float, float, float]:
    """Return the seconds of noise, weights and selection."""
    noisy, noise = _timed(lambda: add_discrete_gaussian(counts, NOISE.sigma_int))
    ids = np.arange(len(labels))
    plms = ["a", "b", "c"]
    samples = pd.DataFrame({"sample_id": ids, "label": labels, "plm": np.array(plms, object)[ids % 3]})
    samples["text"] = [f"text {identity}" for identity in ids]
    release = pd.DataFrame({"sample_id": ids, "near": noisy[:, 0], "far": noisy[:, 1]})
    return noise, _timed(lambda: weigh(release, samples, plms))[1], _timed(lambda: select(release, samples, 8))[1]


def _timed(work: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def in_a_process(file: Path, rows: int, texts: int) -> Point:
    """Measure one size where nothing else has used memory."""
    command = [sys.executable, "-m", "tests.benchmarks.scale", "--point", str(file), str(rows), str(texts)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Point(**json.loads(done.stdout))


def show(points: Sequence[Point]) -> str:
    """Return the points as a table; the last columns should not grow."""
    head = f"{'rows':>8} {'texts':>9} {'votes s':>9} {'last vote':>9} {'noise s':>8} {'weigh s':>8} {'select s':>8}"
    lines = [f"{head} {'peak GB':>8} {'votes ns/pair':>13} {'all us/text':>11}"]
    for one in points:
        pairs, cells = sum(one.votes) / one.rows / one.texts * 1e9, (one.noise, one.weigh, one.select)
        line = f"{one.rows:>8,} {one.texts:>9,} {sum(one.votes):>9.3f} {one.votes[-1]:>9.3f} "
        line += " ".join(f"{cell:>8.3f}" for cell in cells)
        lines.append(f"{line} {one.peak_gigabytes:>8.2f} {pairs:>13.2f} {one.whole / one.texts * 1e6:>11.1f}")
    return "\n".join(lines) + "\n"


def draw(points: Sequence[Point], place: Path) -> None:
    """Write seconds of five votes over texts and over rows, and peak memory, beside lines that are linear."""

    def figure(canvas: Any) -> None:
        over_texts, over_rows, memory = canvas.subplots(1, 3)
        curves = [(over_texts, "texts", "rows", rows) for rows in TEXTS[0]]
        curves += [(over_rows, "rows", "texts", texts) for texts in ROWS[1]]
        for number, (axes, along, fixed, value) in enumerate(curves):
            some = sorted((one for one in points if getattr(one, fixed) == value), key=lambda one: getattr(one, along))
            if some:
                sizes, seconds = [getattr(one, along) for one in some], [sum(one.votes) for one in some]
                axes.loglog(sizes, seconds, MARKERS[number] + "-", color=PALETTE[number], label=f"{value:,} {fixed}")
                axes.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], ":", color=PALETTE[number])
                for axis in (axes.xaxis, axes.yaxis):
                    axis.set_major_formatter(lambda value, _: f"{value:g}" if value < 1 else f"{value:,.0f}")
                axes.set_xlabel(along)
                axes.tick_params(axis="x", labelsize=7)
                axes.set_title("seconds of five votes (dotted: linear)")
                axes.legend()
        bytes_of = [one.texts * DIMENSION * 4 / 2**30 for one in points]
        memory.plot(bytes_of, [one.peak_gigabytes for one in points], "o", color=PALETTE[0])
        memory.set_title("peak memory, GB")
        memory.set_xlabel("GB of the texts' vectors")

    place.write_bytes(picture("scale", (11, 3.2), figure, "png"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every size, print the table as it grows, write table, picture and numbers."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scale", description=__doc__)
    parser.add_argument("--point", nargs=3, metavar=("FILE", "ROWS", "TEXTS"), help="one size in this process")
    parser.add_argument("--tiny", action="store_true", help="one small size: does it run at all")
    chosen = parser.parse_args(arguments)
    if chosen.point:
        file, rows, texts = chosen.point
        sys.stdout.write(json.dumps(asdict(measured(Path(file), int(rows), int(texts)))))
        return
    sizes = [(rows, texts) for some in (TEXTS, ROWS) for rows in some[0] for texts in some[1]]
    sizes = [(20, 400)] if chosen.tiny else sorted({*sizes, *ALSO})
    with tempfile.TemporaryDirectory() as folder:
        file = candidates_file(Path(folder) / "vectors.npy", max(texts for _, texts in sizes))
        points = []
        for rows, texts in sizes:
            points.append(in_a_process(file, rows, texts))
            sys.stdout.write(show(points[-1:]) if len(points) == 1 else show(points[-1:]).splitlines()[1] + "\n")
            sys.stdout.flush()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "scale.json").write_text(json.dumps([asdict(one) for one in points], indent=2) + "\n", encoding="utf-8")
    (OUTPUT / "scale.txt").write_text(show(points), encoding="utf-8")
    draw(points, OUTPUT / "scale.png")
    sys.stdout.write(f"\n{OUTPUT / 'scale.png'}, scale.json, scale.txt\n")


if __name__ == "__main__":
    main()
