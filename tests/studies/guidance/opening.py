"""`python -m tests.studies.guidance.opening --folder OUT`: the worth of opening the private rows by `guidance: auto`.

Data set x private rows x epsilon x seed. Every cell draws N texts of the pool and other private rows, applies the rule
of index 8 (`flows.releases.opening`), makes the release with the product's noise, and trains linear students:

- `zero`: on the texts, no private row (floor); `zero_soft`: on soft labels of the zero-shot head, no private row;
- `head`: on the vectors moved by the release;
- `soft`: on soft labels of the adapted head: what an exported data set carries;
- `means`: nearest mean of the cosine release alone, without texts (direct DP learner);
- `real`: on the private rows without noise (ceiling, NOT PRIVATE).

Finished cells are in OUT/opening.jsonl and are not computed again. Ends with OUT/opening.md and OUT/opening.yaml, which
is `flows/releases/opening_measured.yaml`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from flows.releases.opening import CLOSED, opening_index
from tasks.density.kernels import Kernel, body
from tasks.density.matching import Density
from tasks.density.soft_labels import soft_labels
from tasks.private.releases.density import noisy_density
from tasks.private.voting.ballot import Ballot
from tasks.steps.density import Texts, moved_rows, relate_to_density
from tasks.students.heads import LEAST_PART, PROBE_STRENGTH, fit_logistic
from tests.studies.guidance.cells import density_noise
from tests.studies.guidance.corpora import DATA, Corpus, corpus, folder_of_data

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ROWS = (100, 300, 1000, 4000)
EPSILONS = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What a seed draws: texts of the pool, and private rows with their classes."""

    texts: Texts
    private: NDArray[np.floating]
    private_labels: NDArray[Any]


def drawn(data: Corpus, rows: int, seed: int, samples: int) -> Draw:
    """Return the draw of a seed."""
    draw = np.random.default_rng([seed, rows])
    places = draw.choice(len(data.texts), min(samples, len(data.texts)), replace=False)
    texts = Texts(data.texts.iloc[places].assign(sample_id=places).reset_index(drop=True), data.vectors[places])
    private = draw.choice(len(data.train), rows, replace=False)
    return Draw(texts, data.train[private], data.train_labels[private])


def release(data: Corpus, draw: Draw, epsilon: float) -> Density:
    """Return the density of the private rows with the product's noise."""
    vectors = np.ascontiguousarray(draw.private, dtype=np.float32)
    ballot, noise = Ballot(vectors, draw.private_labels.tolist(), 1, sides=1), density_noise(epsilon, "add_remove")
    found = noisy_density(ballot, data.labels, Kernel(), noise)
    return Density(data.labels, found.sums.reshape(len(data.labels), -1) / found.steps, found.scale_int / found.steps)


def moved_by_release(data: Corpus, draw: Draw, epsilon: float) -> NDArray[np.float32]:
    """Return the vectors of the texts, moved by a release."""
    return move(draw.texts, relate_to_density(draw.texts, Kernel(), release(data, draw, epsilon)), data)


def run(data: Corpus, rows: int, epsilon: float, seed: int, samples: int) -> dict[str, Any]:
    """Return the accuracies of one cell on held-out rows."""
    draw, classes = drawn(data, rows, seed, samples), len(data.labels)
    texts, sigma = draw.texts, density_noise(epsilon, "add_remove").sigma
    hard = one_hot(data, texts.labels)
    index = opening_index(rows, classes, sigma)
    opening = "cosine" if index >= CLOSED else "none"
    found: dict[str, Any] = {"index": index, "opening": opening}
    found["zero"] = accuracy(data, texts.vectors, hard)
    found["real"] = accuracy(data, draw.private, one_hot(data, draw.private_labels))
    zero_soft = soft_labels(texts.vectors, texts.vectors, texts.labels, data.labels)
    found["zero_soft"] = accuracy(data, texts.vectors, zero_soft)
    density = release(data, draw, epsilon)
    if opening != "none":
        moved = move(texts, relate_to_density(texts, Kernel(), density), data)
        found["head"] = accuracy(data, moved, hard)
        found["soft"] = accuracy(data, texts.vectors, soft_labels(texts.vectors, moved, texts.labels, data.labels))
    nearest = np.argmax(units(data.test) @ units(body(density.sums)).T, axis=1)
    found["means"] = float((data.labels_of(nearest) == data.test_labels).mean())
    return {"head": found["zero"], "soft": found["zero_soft"]} | found


def move(texts: Texts, related: Texts, data: Corpus) -> NDArray[np.float32]:
    """Return the vectors of texts, moved per class to their expected means, as `tasks.steps.density.shift_vectors`."""
    expected, points, labels = related.with_density
    moved, lengths = np.array(texts.vectors, dtype=np.float64), np.linalg.norm(texts.vectors, axis=1)
    for label in data.labels:
        own = labels == label
        if own.any():
            moved[moved_rows(own)] += (expected.of(label) - points[own].mean(axis=0)) * lengths[own].mean()
    return moved.astype(np.float32)


def one_hot(data: Corpus, labels: NDArray[Any]) -> Floats:
    """Return hard labels as probabilities, (rows, classes)."""
    return np.asarray(np.eye(len(data.labels))[np.searchsorted(data.labels, labels)])


def accuracy(data: Corpus, vectors: NDArray[Any], soft: Floats) -> float:
    """Return the accuracy on held-out rows of the linear student, which learns probabilities (rows, classes)."""
    positions, targets = np.nonzero(soft >= LEAST_PART)
    weights = soft[positions, targets]
    slopes, offsets = fit_logistic(
        np.asarray(vectors[positions], np.float32), targets, weights, len(data.labels), PROBE_STRENGTH
    )
    return float((data.labels_of((data.test @ slopes.T + offsets).argmax(axis=1)) == data.test_labels).mean())


def units(vectors: Floats) -> Floats:
    """Return vectors of length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute the missing cells, then write tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.guidance.opening", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="vectors, cells and tables")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--samples", type=int, default=1200, help="texts of a run (N)")
    chosen, data = parser.parse_args(arguments), folder_of_data()
    if data is None:
        sys.exit("The folder of the data is missing: set WASP_DATA to it.")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    book = chosen.folder / "opening.jsonl"
    lines = book.read_text(encoding="utf-8").splitlines() if book.exists() else []
    done = [json.loads(line) for line in lines if line.endswith("}")]
    names = {(cell["data"], cell["rows"], cell["epsilon"], cell["seed"]) for cell in done}
    for name in chosen.data:
        source = corpus(name, data, chosen.folder / "corpora")
        for seed in range(chosen.seeds):
            for rows in (rows for rows in chosen.rows if rows <= len(source.train)):
                for epsilon in (e for e in chosen.epsilons if (name, rows, e, seed) not in names):
                    cell = {"data": name, "classes": len(source.labels), "rows": rows, "epsilon": epsilon, "seed": seed}
                    done.append(cell | run(source, rows, epsilon, seed, chosen.samples))
                    with book.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(done[-1]) + "\n")
    tell(pd.DataFrame(done), chosen.folder)


def tell(cells: pd.DataFrame, folder: Path) -> None:
    """Write the table of all places (data set, rows, epsilon) and what `wasp advise` reads."""
    import yaml

    heads = ["data", "rows", "epsilon", "index", "release", "zero-shot", "zero-shot, soft labels", "adapted student"]
    heads += ["exported texts, soft labels", "class means (DP)", "real rows (NOT PRIVATE)", "student over zero-shot"]
    heads += ["texts over zero-shot, soft labels", "student over the best floor", "texts over the best floor"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    places = []
    for (name, rows, epsilon), group in cells.groupby(["data", "rows", "epsilon"], sort=False):
        means = {
            column: float(group[column].mean()) for column in ("zero", "zero_soft", "head", "soft", "means", "real")
        }
        index, opening = float(group["index"].iloc[0]), group["opening"].iloc[0]
        best = max(("zero", "zero_soft", "means"), key=means.__getitem__)
        pairs = [("head", "zero"), ("soft", "zero_soft"), ("head", best), ("soft", best)]
        gains = [interval(group[column] - group[floor]) for column, floor in pairs]
        shown = [f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]" for mean, low, high in gains]
        shown[2:] = shown[2:] if opening != "none" else ["", ""]
        cell = [str(name), str(rows), f"{epsilon:g}", f"{index:.1f}", opening]
        lines.append("| " + " | ".join([*cell, *(f"{mean:.3f}" for mean in means.values()), *shown]) + " |")
        if opening == "none":
            continue
        place = {"data": str(name), "classes": int(group["classes"].iloc[0]), "rows": int(rows)}
        place |= {"epsilon": float(epsilon), "index": round(index, 2)}
        place |= {"zero_shot": round(max(means["zero"], means["zero_soft"]), 3)}
        place |= {column: round(means[column], 3) for column in ("head", "soft")}
        places.append(place | {"gain": [round(mean, 3) for mean, _, _ in gains[2:]]})
    (folder / "opening.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = yaml.safe_dump(places, sort_keys=False, default_flow_style=None, width=200)
    (folder / "opening.yaml").write_text(text, encoding="utf-8")


def interval(differences: pd.Series[float]) -> tuple[float, float, float]:
    """Return mean and Student's 95 % interval of paired differences over seeds."""
    from scipy.stats import t

    mean, number = float(differences.mean()), len(differences)
    half = float(t.ppf(0.975, number - 1) * differences.std(ddof=1) / number**0.5) if number > 1 else float("nan")
    return mean, mean - half, mean + half


if __name__ == "__main__":
    main()
