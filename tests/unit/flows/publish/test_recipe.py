"""The recipe of a card is run at export, and the card states what it reached."""

from pathlib import Path

import pandas as pd
import pytest

from flows.publish.recipe import (
    ON_ENCODER,
    ON_WORDS,
    describe_recipe,
    encoder_of,
    learning_lines,
    measure_recipe,
)
from tasks.metrics.usefulness import Accuracy
from tests.support.runs.pipeline import SMALL

ROWS = pd.DataFrame(
    [
        (f"{word} number {n}", label)
        for n in range(20)
        for word, label in (("invoice", "bill"), ("parcel", "post"))
    ],
    columns=["text", "label"],
)
ENCODER = {"embedder": {"connector": "sentence_transformers", "model": "embedded"}}


@pytest.mark.parametrize(("swapped", "right"), [(False, 20), (True, 0)])
def test_the_lines_learn_hard_and_soft_labels(tmp_path: Path, swapped: bool, right: int) -> None:
    ROWS.head(20).to_parquet(tmp_path / "test.parquet")
    config = SMALL | {"test": {"path": str(tmp_path / "test.parquet")}}
    manifest = {"run_id": "r", "flow": "wasp", "dataset": "desk", "config": config}
    soft = [[0.1, 0.9] if (label == "bill") == swapped else [0.9, 0.1] for label in ROWS["label"]]
    names = ["bill", "post"]
    assert measure_recipe(tmp_path, manifest, ROWS, names) == {ON_WORDS: Accuracy(20, 20)}
    measured = measure_recipe(tmp_path, manifest, ROWS.assign(label_soft=soft), names)
    assert measured == {ON_WORDS: Accuracy(right, 20)}
    assert (
        measure_recipe(tmp_path, manifest | {"config": config | {"test": None}}, ROWS, names) == {}
    )


def test_the_card_uses_the_encoder_and_names_what_is_not_above_chance() -> None:
    assert encoder_of(ENCODER) == "sentence-transformers/all-MiniLM-L6-v2"
    assert encoder_of(SMALL) == ""
    assert 'rows["label_soft"]' in learning_lines(soft=True)
    message = describe_recipe({ON_ENCODER: Accuracy(250, 300), ON_WORDS: Accuracy(61, 300)}, 0.2)
    assert (
        f"on {ON_ENCODER} 83.3 % (79-87), on {ON_WORDS} 20.3 % (16-25) of 300 test rows; chance 20.0 %."
        in message
    )
    assert message.endswith(f"**Warning**: on {ON_WORDS} they are not above chance.")
    assert describe_recipe({}, 0.2).endswith("not run at export: the run has no test rows.")
    assert describe_recipe({}, 0.2, "test.csv does not exist.").endswith(
        "not run at export: test.csv does not exist."
    )
