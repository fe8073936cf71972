"""Terms near a released class mean: of the right language, the right ones, drawn for each prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from connectors.interfaces.models import Completion, Keep, keep_nothing
from connectors.interfaces.prompts import Prompt
from tasks.guidance.density import ClassMeans
from tasks.guidance.topics import FREQUENT, WORDS, frequent_words, has_words, nearest_words
from tasks.private.density.features import body, features_of
from tasks.writing.generate import WriteJob, WritingRequest, generate
from tasks.writing.prompts import Label, TaskCard

CARD = TaskCard("desk", "message", (Label("queue_1"), Label("queue_2")))
TOPICS = {"queue_1": ("router", "cable", "signal", "modem"), "queue_2": ("invoice", "refund")}


@pytest.mark.parametrize(
    ("language", "topic", "others"),
    [
        ("en", "refund", ["the", "12th", "cat"]),
        ("de", "rechnung", ["und", "arzt1", "invoice"]),
        ("ru", "больница", ["как"]),
        ("hr", "bolnica", ["kao"]),
        ("no", "sykehus", ["ikke1", "til"]),
        ("ar", "مستشفى", ["ب"]),
        ("hi", "अस्पताल", []),
        ("ko", "병원", ["그"]),
        ("zh", "医院", ["的"]),
    ],
)
def test_frequent_words_are_those_of_the_language(
    language: str, topic: str, others: list[str]
) -> None:
    words = frequent_words(language)
    assert topic in words
    assert not set(others) & set(words)
    assert 3000 < len(words) <= FREQUENT
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("language", ["sw", "th", "gl", "xx"])
def test_no_language_gets_the_terms_of_another_one(language: str) -> None:
    assert not has_words(language)
    with pytest.raises(LookupError, match="no list of terms"):
        frequent_words(language)


def test_the_words_of_a_class_point_where_its_mean_does() -> None:
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(3, 32))
    words = [f"word{number}" for number in range(120)]
    vectors = centres[np.arange(120) % 3] + 0.5 * generator.normal(size=(120, 32)) + 2.0
    means = ClassMeans(("a", "b", "c"), body(features_of((centres + 2.0).astype(np.float32))))
    table = nearest_words(words, vectors.astype(np.float32), means)
    assert table.groupby("label").size().tolist() == [WORDS] * 3
    for number, label in enumerate(means.labels):
        own = table[table["label"] == label]["term"]
        assert {int(word[4:]) % 3 for word in own} == {number}


def test_a_few_words_are_all_used() -> None:
    means = ClassMeans(("a", "b"), np.eye(2, 8))
    table = nearest_words(["left", "right"], np.eye(2, 8, dtype=np.float32), means)
    assert table["term"].tolist() == ["left", "right", "right", "left"]


@dataclass
class Writer:
    """A model that answers each prompt with another sentence, and keeps the prompts."""

    name: str = "writer"
    identity: str = "writer-1"
    asked: list[Prompt] = field(default_factory=list)

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        self.asked += prompts
        return [
            Completion(f"This is sentence number {prompt.seed} of many.", "stop")
            for prompt in prompts
        ]


def asked(texts_per_prompt: int = 1, listed: bool = False) -> list[Prompt]:
    job = WriteJob(
        plm_index=0,
        iteration=1,
        card=CARD,
        plm="writer",
        texts_per_prompt=texts_per_prompt,
        listed=listed,
    )
    writer = Writer()
    generate(writer, WritingRequest(job, {"queue_1": 12, "queue_2": 12}, topics=TOPICS))
    return writer.asked


@pytest.mark.parametrize("listed", [False, True], ids=["instruction", "list"])
def test_a_prompt_names_three_words_of_its_class_and_the_next_one_others(listed: bool) -> None:
    drawn = set()
    for prompt in asked(listed=listed):
        own = {word for word in TOPICS[prompt.label] if word in prompt.text}
        others = {
            word for label, words in TOPICS.items() if label != prompt.label for word in words
        }
        assert len(own) == min(3, len(TOPICS[prompt.label]))
        assert not {word for word in others if word in prompt.text}
        drawn.add(prompt.description)
    assert len(drawn) > 4
    assert [prompt.text for prompt in asked(listed=listed)] == [
        prompt.text for prompt in asked(listed=listed)
    ]


def test_prompts_that_share_a_draw_share_their_words() -> None:
    texts = [prompt.text for prompt in asked(texts_per_prompt=4) if prompt.label == "queue_1"]
    assert len(set(texts)) == 3
