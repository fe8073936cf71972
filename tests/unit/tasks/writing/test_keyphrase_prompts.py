"""Prompts that are seeded with phrases: theirs alone, no class, examples only where somebody gave them away."""

from collections import Counter
from dataclasses import replace

from connectors.interfaces.prompts import Seeded
from tasks.writing.keyphrase_prompts import (
    Seeding,
    ShownText,
    count_used,
    seeded,
    without_idle_examples,
)
from tasks.writing.prompts import Call, Label, PhraseExample, TaskCard, Turn

CARD = TaskCard(
    "notes", "discharge note", (Label("heart", "of the heart"), Label("lung")), max_tokens=50
)
SEQUENCES = {
    "heart": (("angina", "heart failure"), ("stent", "aorta"), ("valve", "bypass")),
    "lung": (("asthma", "cough"),),
}


def call(label: str, ordinal: int, attempt: int = 0) -> Call:
    return Call(Turn(plm_index=0, iteration=0), label, ordinal, attempt)


def test_a_prompt_names_its_phrases_the_kind_of_text_and_no_class() -> None:
    prompt = seeded(CARD, call("heart", 0), Seeding(SEQUENCES))
    assert isinstance(prompt, Seeded)
    assert prompt.phrases == ("angina", "heart failure")
    assert (
        "Write one discharge note that contains these terms: angina; heart failure." in prompt.text
    )
    assert (prompt.label, prompt.description, prompt.good) == ("", "", ())
    assert "of the heart" not in prompt.text


def test_a_listed_prompt_ends_with_its_phrases_after_examples_with_theirs() -> None:
    listed = replace(call("heart", 0), turn=Turn(plm_index=0, iteration=0, listed=True))
    made_up = seeded(CARD, listed, Seeding(SEQUENCES))
    assert made_up.end == "\n"
    assert made_up.text.splitlines()[-1] == "3. angina, heart failure:"
    assert made_up.text.startswith(
        "Real examples of a discharge note, each after the words it contains.\n1. open,"
    )
    shown = (
        ShownText("A stent\nwas placed.", "heart", ("stent",)),
        ShownText("No phrase.", "lung"),
    )
    lines = seeded(CARD, listed, Seeding(SEQUENCES, shown)).text.splitlines()
    assert lines[1:] == ["1. stent: A stent was placed.", "2. angina, heart failure:"]


def test_a_list_begins_with_the_lines_of_its_task() -> None:
    listed = replace(call("heart", 0), turn=Turn(plm_index=0, iteration=0, listed=True))
    examples = (
        PhraseExample(("stent", "placed"), "A stent was\nplaced."),
        PhraseExample(("cough",), "No cough."),
    )
    own = replace(CARD, phrase_examples=examples)
    lines = seeded(own, listed, Seeding(SEQUENCES)).text.splitlines()
    assert lines == [
        "Real examples of a discharge note, each after the words it contains.",
        "1. stent, placed: A stent was placed.",
        "2. cough: No cough.",
        "3. angina, heart failure:",
    ]
    shown = (ShownText("A bypass.", "heart", ("bypass",)),)
    lines = seeded(own, listed, Seeding(SEQUENCES, shown)).text.splitlines()
    assert lines[1:] == ["1. bypass: A bypass.", "2. angina, heart failure:"], "released ones first"
    assert seeded(own, call("heart", 0), Seeding(SEQUENCES)) == seeded(
        CARD, call("heart", 0), Seeding(SEQUENCES)
    ), "an instruction has no lines"


def test_lines_of_a_task_belong_to_the_lists_of_dp_kps_alone() -> None:
    own = replace(CARD, phrase_examples=(PhraseExample(("cough",), "No cough."),))
    assert without_idle_examples(own, "dp_kps", is_listed=True) == own
    assert without_idle_examples(own, "dp_kps", is_listed=False) == CARD
    assert without_idle_examples(own, "wasp", is_listed=True) == CARD


def test_used_phrases_are_whole_words_in_any_case_and_each_counts_once() -> None:
    text = "Heart-failure after a STENT; no aortas."
    assert count_used(text, ("heart failure", "stent", "stent", "aorta", "cough")) == 2
    assert count_used("", ("stent",)) == 0


def test_models_take_the_sequences_of_a_class_in_turn_and_begin_again() -> None:
    taken = [
        [Seeding(SEQUENCES, first=first, models=2).phrases("heart", n)[0] for n in range(3)]
        for first in (0, 1)
    ]
    assert taken == [["angina", "valve", "stent"], ["stent", "angina", "valve"]]
    first, again = (seeded(CARD, call("lung", n), Seeding(SEQUENCES)) for n in (0, 1))
    assert first.phrases == again.phrases
    assert first.key != again.key


def test_each_prompt_shows_three_examples_of_every_class_with_their_phrases() -> None:
    """Appendix B.2.5: three from each class, along with their keyphrases."""
    shown = tuple(
        ShownText(f"{label}\nnumber {n}", label, (f"{label} term", f"term {n}"))
        for label in SEQUENCES
        for n in range(9)
    )
    arguments = Seeding(SEQUENCES, shown)
    left, other = (seeded(CARD, call("heart", n), arguments) for n in (0, 1))
    assert Counter(text.split()[0] for text in left.good) == {"heart": 3, "lung": 3}
    assert set(left.good) != set(other.good)
    lines = left.text.splitlines()
    for position, text in enumerate(left.good, start=1):
        label, _, number = text.split()
        at = lines.index(f"discharge note {position}: {label} number {number}")
        assert lines[at - 1] == f"terms {position}: {label} term; term {number}"
    assert left.text.endswith(seeded(CARD, call("heart", 0), Seeding(SEQUENCES)).text)
    assert "numbered" not in seeded(CARD, call("heart", 0), Seeding(SEQUENCES)).text


def test_an_example_without_a_phrase_is_shown_alone() -> None:
    arguments = Seeding(SEQUENCES, (ShownText("none of them", "heart"),))
    prompt = seeded(CARD, call("heart", 0), arguments)
    assert "discharge note 1: none of them" in prompt.text
    assert "terms 1" not in prompt.text
