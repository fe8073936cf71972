"""Words near a released class mean: from the texts alone, the right ones, drawn anew for each prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from connectors.interfaces.models import Completion, Keep, keep_nothing
from connectors.interfaces.prompts import Prompt
from tasks.guidance.density import ClassMeans
from tasks.guidance.topics import WORDS, nearest_words, words_of
from tasks.private.density.features import body, features_of
from tasks.writing.generate import WriteJob, WritingRequest, generate
from tasks.writing.prompts import Label, TaskCard

CARD = TaskCard("desk", "message", (Label("queue_1"), Label("queue_2")))
TOPICS = {"queue_1": ("router", "cable", "signal", "modem"), "queue_2": ("invoice", "refund")}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (
            ["The Router is red", "a router, 2 cables", "Überweisung", "überweisung!"],
            ["router", "überweisung"],
        ),
        (["one of us", "red red red"], []),
        (["", "  "], []),
        ([], []),
    ],
    ids=["letters", "short-or-once", "blank", "none"],
)
def test_words_are_those_that_two_texts_have(texts: list[str], words: list[str]) -> None:
    assert words_of(texts) == words


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
    """A model that answers each prompt with a sentence of its own, and keeps the prompts."""

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
