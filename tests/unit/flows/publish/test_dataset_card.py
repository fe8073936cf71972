"""The data card names the answers of language models that are not one whole text."""

from dataclasses import replace

import pytest

from flows.publish.dataset_card import BundleFacts, dataset_card
from tasks.metrics.answer_counts import AnswerCounts, describe_findings
from tasks.writing.prompts import Label, TaskCard
from tests.support.data.reports import made_up_report

BOOK = {
    "dataset": "desk",
    "plan": {"protects": "record", "adjacency": "add_remove", "models": ["gpt-4o"]},
    "config": {
        "student": {"kind": "linear"},
        "embedder": {"connector": "hashing", "model": "", "options": {}},
    },
}


def test_a_card_says_how_many_texts_end_in_the_middle_by_model() -> None:
    counts = {"gpt-4o": AnswerCounts(texts=900, cut=30, answers=1000, left_out={"format": 100})}
    card = TaskCard("banking10", "message", (Label("loan"), Label("fees")))
    facts = BundleFacts(
        made_up_report(), card, BOOK, "2026-01-01", "cc-by-4.0", findings=describe_findings(counts)
    )
    limits = dataset_card(facts).partition("## Known limits")[2].partition("##")[0]
    assert "- gpt-4o: 30 of 900 texts end in the middle of a sentence.\n" in limits
    assert "- gpt-4o: 100 of 1000 answers were left out (100 format).\n" in limits


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "- texts: English (en); form prose (sentences)\n"),
        (
            {"form": "values", "length": "10 words", "language": "de"},
            "- texts: German (de); form values (names and values), about 10 words\n",
        ),
    ],
)
def test_a_card_states_language_form_and_length(values: dict[str, str], line: str) -> None:
    card = replace(TaskCard("lab", "line", (Label("heart"), Label("lung"))), **values)
    text = dataset_card(BundleFacts(made_up_report(), card, BOOK, "2026-01-01", "cc-by-4.0"))
    assert line in text.partition("## Data")[2].partition("##")[0]


def test_a_card_states_what_labels_mean() -> None:
    labels = (Label("0", "a card that is lost"), Label("1"), Label("2", "a fee"))
    card = TaskCard("kinds", "message", labels)
    text = dataset_card(BundleFacts(made_up_report(), card, BOOK, "2026-01-01", "cc-by-4.0"))
    meaning = "- meaning of the labels:\n  - `0`: a card that is lost\n  - `2`: a fee\n"
    assert f"- labels: `0`, `1`, `2`\n{meaning}" in text
    assert "meaning" not in dataset_card(
        BundleFacts(
            made_up_report(), replace(card, labels=(Label("1"),)), BOOK, "2026-01-01", "cc-by-4.0"
        )
    )


def test_a_card_states_that_no_measurement_covers_another_language() -> None:
    card = TaskCard("notizen", "Arztbrief", (Label("heart"), Label("lung")), language="de")
    limits = []
    for name in ("German", ""):
        facts = BundleFacts(
            made_up_report(), replace(card, prompt_language=name), BOOK, "2026-01-01", "cc-by-4.0"
        )
        text = dataset_card(facts)
        assert 'language: ["de"]' in text
        limits.append(text.partition("## Known limits")[2].partition("##")[0])
    assert (
        "- The texts are in German (de), which no measurement of this project covers; texts"
        in limits[0]
    )
    assert (
        "- The texts are in German (de), which no measurement of this project covers.\n"
        in limits[1]
    )
    english = replace(card, language="en")
    assert "no measurement" not in dataset_card(
        BundleFacts(made_up_report(), english, BOOK, "2026-01-01", "cc-by-4.0")
    )
