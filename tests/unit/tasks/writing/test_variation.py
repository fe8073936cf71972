"""Prompts for variations of texts; each answer stays with its class and its parent."""

from dataclasses import replace

import pytest

from connectors.interfaces.models import Completion
from connectors.interfaces.prompts import Cloze, Prompt
from tasks.writing.cleaning import clean
from tasks.writing.generate import WriteJob, WritingRequest, generate
from tasks.writing.prompts import Label, TaskCard
from tasks.writing.variation import Manner, Parent

CARD = TaskCard(
    "desk",
    "message to a support desk",
    (
        Label("billing", "about an invoice", ("invoice", "refund")),
        Label("login", "cannot get in", ("password",)),
    ),
    max_tokens=400,
)
LONG = "Dear all, " + " ".join(f"word{n}" for n in range(90)) + ", thank you."
PARENTS = {
    "billing": (
        Parent(11, "My invoice of May is wrong, please correct it soon."),
        Parent(12, LONG),
    ),
    "login": (Parent(21, "The password is refused since the update last night."),),
}
BLANKS = Manner(variation="blanks", mask=0.4, rounds=2)


def request(manner: Manner, listed: bool = False, **changes: object) -> WritingRequest:
    job = WriteJob(CARD, "clerk", plm_index=0, iteration=1, manner=manner, listed=listed)
    base = WritingRequest(job, {"billing": 4, "login": 2}, parents=PARENTS)
    return replace(base, **changes)  # type: ignore[arg-type]


class Model:
    """Answers every prompt with a text of its own, but for those that `fails` names."""

    name = identity = "model"

    def __init__(self, fails=lambda number: False, failing: str = "") -> None:
        self.fails, self.failing, self.asked = fails, failing, list[Prompt]()

    def complete(self, prompts, keep=lambda *_: None):
        answers = []
        for prompt in prompts:
            number = len(self.asked)
            self.asked.append(prompt)
            text = f"This is the answer with the number {number} to somebody who asked for it"
            answers.append(Completion(self.failing if self.fails(number) else text))
        return answers


def test_each_parent_is_varied_in_turn_and_named_next_to_the_text() -> None:
    model = Model()
    rows = generate(model, request(BLANKS)).rows
    assert rows["label"].value_counts().to_dict() == {"billing": 4, "login": 2}
    assert rows[rows["label"] == "billing"]["parent_id"].value_counts().to_dict() == {11: 2, 12: 2}
    assert set(rows[rows["label"] == "login"]["parent_id"]) == {21}
    assert all(isinstance(prompt, Cloze) for prompt in model.asked)
    assert len({prompt.key for prompt in model.asked}) == 6, (
        "no two variations of a parent are asked alike"
    )


def test_blanks_hide_the_share_that_was_requested() -> None:
    for mask in (0.2, 0.8):
        model = Model()
        generate(model, request(replace(BLANKS, mask=mask), counts={"billing": 60}))
        shown = [
            entry.blanked
            for entry in model.asked
            if isinstance(entry, Cloze) and entry.source == LONG
        ]
        stored = [
            sum(word in text.split() for word in LONG.split()) / len(LONG.split()) for text in shown
        ]
        assert sum(stored) / len(stored) == pytest.approx(1 - mask, abs=0.1)
        assert all("_" in text and "_ _" not in text for text in shown)
        assert all(
            entry.blanked in entry.text and entry.source not in entry.text for entry in model.asked
        )


def test_a_paraphrase_shows_the_parent_and_may_not_repeat_it() -> None:
    model = Model()
    generate(model, request(Manner(variation="paraphrase")))
    prompt = model.asked[0]
    assert not isinstance(prompt, Cloze)
    assert PARENTS["billing"][0].text in prompt.text
    assert prompt.good == (PARENTS["billing"][0].text,)
    assert clean(PARENTS["billing"][0].text, prompt).reason == "copied_example"
    assert clean("Please put my bill for May right.", prompt).reason is None


def test_a_listed_paraphrase_is_the_second_item_of_a_list() -> None:
    for disclose, topic in ((True, " Topic: about an invoice."), (False, "")):
        model = Model()
        generate(model, request(Manner(variation="paraphrase", disclose=disclose), listed=True))
        heading, parent, begun = model.asked[0].text.splitlines()
        assert heading == f"One message to a support desk, said in different ways.{topic}"
        assert (parent, begun) == (f"1. {PARENTS['billing'][0].text}", "2.")
        assert model.asked[0].end == "\n"


def test_a_filled_text_may_share_its_words_with_what_was_shown_but_not_with_the_instruction() -> (
    None
):
    model = Model()
    generate(model, request(BLANKS))
    cloze = next(
        entry for entry in model.asked if isinstance(entry, Cloze) and entry.source == LONG
    )
    assert clean(cloze.blanked.replace("_", "and"), cloze).reason is None
    assert clean(
        "Write it out in full, put fitting words in the place of every underscore.", cloze
    ).reason


def test_what_is_not_disclosed_is_in_no_field_of_a_prompt() -> None:
    for manner in (Manner(disclose=False, keywords=True), replace(BLANKS, disclose=False)):
        model = Model()
        rows = generate(model, request(manner, parents=PARENTS if manner.variation else {})).rows
        assert rows["label"].value_counts().to_dict() == {"billing": 4, "login": 2}, (
            "the row still knows its class"
        )
        for prompt in model.asked:
            reported = repr(
                replace(prompt, source="", blanked="") if isinstance(prompt, Cloze) else prompt
            )
            reported = (
                reported
                if not manner.variation
                else reported.replace(getattr(prompt, "blanked", ""), "")
            )
            for word in ("billing", "login", "invoice", "refund", "about an invoice"):
                assert word not in reported or word in getattr(prompt, "source", ""), word


def test_every_new_text_has_a_keyword_of_its_own() -> None:
    model = Model()
    generate(model, request(Manner(keywords=True), parents={}))
    said = [
        next(word for word in ("invoice", "refund") if f'about "{word}"' in entry.text)
        for entry in model.asked[::2]
    ]
    assert set(said) == {"invoice", "refund"}
    plain = Model()
    generate(plain, request(Manner(), parents={}))
    assert not any(' about "' in prompt.text for prompt in plain.asked)


@pytest.mark.parametrize(
    "failing",
    ["", " ", "Sure! Here is the text:", "I'm sorry, but I can't assist with that request."],
)
def test_an_answer_that_is_no_text_never_becomes_one(failing: str) -> None:
    """Neither the instruction nor a blank replaces a failed variation, and labels stay where they belong."""
    model = Model(lambda number: number % 2 == 0, failing)
    made = generate(model, request(BLANKS, counts={"billing": 6, "login": 6}))
    assert made.rows["text"].str.startswith("This is the answer").all()
    by_key = {prompt.key: prompt for prompt in model.asked}
    for row in made.rows.itertuples():
        assert by_key[str(row.prompt_key)].label == row.label
        parents = {parent.sample_id: parent.text for parent in PARENTS[str(row.label)]}
        prompt = by_key[str(row.prompt_key)]
        assert isinstance(prompt, Cloze)
        assert parents[int(row.parent_id)] == prompt.source  # type: ignore[call-overload]
    silent = generate(Model(lambda _: True, failing), request(BLANKS))
    assert silent.rows.empty
    assert dict(silent.shortfall) == {"billing": 4, "login": 2}
