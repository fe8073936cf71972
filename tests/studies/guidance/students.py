"""`python -m tests.studies.guidance.students --folder OUT`: `guidance: auto` with other students than the linear one.

The cells of `tests.studies.guidance.opening` at one place (rows, epsilon) for each data set and seed. Students:

- `mlp` and `finetune` (the embedded sentence encoder) learn the soft labels of the release, as in a run;
- `tfidf` (logistic regression on TF-IDF, outside the product) does so too, as anyone who gets an exported data set;
- `mlp_moved` learns from moved vectors (`student.adaptation: density`);
- `dp_logistic` is the rival without synthetic texts: logistic regression on the private vectors by 30 steps of gradient
  descent on all rows, with clipped gradients and Gaussian noise of the same epsilon.

For each student: accuracy with hard labels and with soft labels without any private row (floors), and with the release.
Gains are over the better floor. Finished cells are in OUT/students.jsonl. Ends with OUT/students.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from tasks.accounting.composition import gaussian_sigma
from tasks.audit.bounds import ignore_progress
from tasks.density.soft_labels import soft_labels
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.train import load_student, train_student
from tests.studies.guidance.cells import DELTA
from tests.studies.guidance.corpora import DATA, Corpus, corpus, folder_of_data
from tests.studies.guidance.opening import Draw, drawn, interval, moved_by_release, one_hot, units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STUDENTS: Final = ("mlp", "mlp_moved", "tfidf", "finetune", "dp_logistic")
STEPS: Final = 30
"""Steps of the private logistic regression."""
RATE: Final = 2.0
"""Step size of the private logistic regression, the best of 0.5, 1, 2 and 4 on Banking."""


def run(data: Corpus, student: str, draw: Draw, epsilon: float, seed: int) -> dict[str, float]:
    """Return the accuracies of one student on held-out rows."""
    if student == "dp_logistic":
        return {"release": dp_logistic(data, draw, epsilon, seed)}
    texts, hard = draw.texts, one_hot(data, draw.texts.labels)
    moved = moved_by_release(data, draw, epsilon)
    zero = soft_labels(texts.vectors, texts.vectors, texts.labels, data.labels)
    released = soft_labels(texts.vectors, moved, texts.labels, data.labels)
    if student.startswith("mlp"):
        last = (moved, hard) if student == "mlp_moved" else (texts.vectors, released)
        ways = {"hard": (texts.vectors, hard), "soft": (texts.vectors, zero), "release": last}
        return {way: trained("mlp", data, draw, vectors, soft, seed) for way, (vectors, soft) in ways.items()}
    learn = tfidf if student == "tfidf" else finetuned
    return {way: learn(data, draw, soft, seed) for way, soft in (("hard", hard), ("soft", zero), ("release", released))}


def trained(kind: Any, data: Corpus, draw: Draw, vectors: Any, soft: Floats, seed: int) -> float:
    """Return the accuracy of a student of the product."""
    texts = draw.texts.samples["text"].tolist()
    labels = data.labels_of(soft.argmax(axis=1)).tolist()
    rows = TrainingRows(texts, labels, data.labels, vectors, soft=None if set(np.unique(soft)) <= {0, 1} else soft)
    with tempfile.TemporaryDirectory() as folder:
        train_student(StudentSpec(kind, seed=seed), rows, Path(folder), ignore_progress)
        predicted = load_student(Path(folder))(list(data.test_texts), data.test)
    return float((np.array(predicted.labels) == data.test_labels).mean())


def finetuned(data: Corpus, draw: Draw, soft: Floats, seed: int) -> float:
    """Return the accuracy of the fine-tuned sentence encoder."""
    return trained("finetune", data, draw, None, soft, seed)


def tfidf(data: Corpus, draw: Draw, soft: Floats, seed: int) -> float:
    """Return the accuracy of logistic regression on TF-IDF that learns probabilities, by weighted copies of texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    features = words.fit_transform(draw.texts.samples["text"])
    rows, targets = np.nonzero(soft >= 0.005)
    learner = LogisticRegression(max_iter=1000, C=10.0, random_state=seed)
    learner.fit(features[rows], targets, sample_weight=soft[rows, targets])
    guessed = data.labels_of(learner.predict(words.transform(data.test_texts)))
    return float((guessed == data.test_labels).mean())


def dp_logistic(data: Corpus, draw: Draw, epsilon: float, seed: int) -> float:
    """Return the accuracy of private logistic regression: L2 sensitivity 1 in each of `STEPS` sums of gradients."""
    sigma = gaussian_sigma(epsilon, DELTA, STEPS**0.5)
    rng, rows = np.random.default_rng([seed, 7]), units(np.asarray(draw.private, np.float64))
    targets = np.eye(len(data.labels))[np.searchsorted(data.labels, draw.private_labels)]
    slopes = np.zeros((len(data.labels), rows.shape[1]))
    for _ in range(STEPS):
        scores = 10 * rows @ slopes.T
        guessed = np.exp(scores - scores.max(axis=1, keepdims=True))
        apart = targets - guessed / guessed.sum(axis=1, keepdims=True)
        apart /= np.maximum(1.0, np.linalg.norm(apart, axis=1, keepdims=True))  # rows have length 1: so have gradients
        slopes += RATE * (apart.T @ rows + sigma * rng.standard_normal(slopes.shape)) / len(rows)
    return float((data.labels_of((units(data.test) @ slopes.T).argmax(axis=1)) == data.test_labels).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute the missing cells, then write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.guidance.students", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="vectors, cells and table")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--students", nargs="+", choices=STUDENTS, default=list(STUDENTS))
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--samples", type=int, default=1200, help="texts of a run (N)")
    chosen, data = parser.parse_args(arguments), folder_of_data()
    if data is None:
        sys.exit("The folder of the data is missing: set WASP_DATA to it.")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    book = chosen.folder / "students.jsonl"
    lines = book.read_text(encoding="utf-8").splitlines() if book.exists() else []
    done = [json.loads(line) for line in lines if line.endswith("}")]
    names = {(cell["data"], cell["student"], cell["rows"], cell["epsilon"], cell["seed"]) for cell in done}
    for name in chosen.data:
        source = corpus(name, data, chosen.folder / "corpora")
        for seed in range(chosen.seeds):
            draw = drawn(source, chosen.rows, seed, chosen.samples)
            for student in chosen.students:
                place = {"data": name, "student": student, "rows": chosen.rows, "epsilon": chosen.epsilon, "seed": seed}
                if tuple(place.values()) in names:
                    continue
                done.append(place | run(source, student, draw, chosen.epsilon, seed))
                with book.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    tell(pd.DataFrame(done), chosen.folder)


def tell(cells: pd.DataFrame, folder: Path) -> None:
    """Write the table of all students and data sets."""
    heads = ["data", "rows", "epsilon", "student", "seeds", "hard labels", "soft labels", "with the release", "gain"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (name, rows, epsilon, student), group in cells.groupby(["data", "rows", "epsilon", "student"], sort=False):
        means = [f"{group[way].mean():.3f}" if group[way].notna().all() else "" for way in ("hard", "soft", "release")]
        gain = ""
        if means[0]:
            mean, low, high = interval(
                group["release"] - group[max(("hard", "soft"), key=lambda way: group[way].mean())]
            )
            gain = f"{mean:+.3f}" + (f" [{low:+.3f}, {high:+.3f}]" if len(group) > 1 else "")
        lines.append(
            "| " + " | ".join([name, str(rows), f"{epsilon:g}", student, str(len(group)), *means, gain]) + " |"
        )
    (folder / "students.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
