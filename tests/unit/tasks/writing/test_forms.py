"""Forms of text: what prompts request, what cleaning accepts and what is proposed from records."""

from dataclasses import replace

import pytest

from connectors.interfaces.content_keys import digest
from connectors.interfaces.models import Completion
from connectors.interfaces.prompts import Prompt
from tasks.writing.cleaning import Cleaned, clean
from tasks.writing.first_answers import judge
from tasks.writing.forms import FORMS, PROSE, likely_form, limit_of, stated_words, tokens_for
from tasks.writing.generate import WriteJob, WritingRequest, generate
from tasks.writing.prompts import Call, Label, TaskCard, Turn, prompt_for, zero_shot
from tasks.writing.usable_texts import different_texts
from tasks.writing.variation import Manner, Parent, generation_prompt

CARD = TaskCard("ward", "entry of a ward", (Label("heart"), Label("skin")))
CODE = "def add(a, b):\n    # Sum **both**.\n    return {'sum': a + b}"
DIALOGUE = "Agent: How can I help you?\nCustomer: My card is lost.\nAgent: I will block it now."
LETTER = (
    "Dear colleague,\n\n1. History\nThe patient came with chest pain on Monday and was kept for two nights.\n"
    "-----------------------------\n2. Plan\nWe advise rest, and a visit in May.\n"
    "| day | pulse |\n|---|---|\n| 1 | 90 |"
)
VALUES = "Hb 8.2 g/dL; WBC 11.4; CRP 120 mg/L; Na 138; K 4.1; Crea 1.3; pH 7.31; pCO2 44"


def card(form: str, length: str = "") -> TaskCard:
    return replace(CARD, form="" if form == PROSE else form, length=length)


def cleaned(text: str, form: str) -> Cleaned:
    return clean(text, zero_shot(card(form), "heart", "", 0), form=form)


ACCEPTED = [
    ("short", "Fever", "Fever"),
    ("short", "n/v/d", "n/v/d"),
    ("short", "1. chest pain\n2. rash", "chest pain"),
    ("short", "- chest pain\n- rash\n- cough", "chest pain"),
    ("short", '"SOB"', "SOB"),
    ("values", VALUES, VALUES),
    ("values", "7.31 / 44 / 138", "7.31 / 44 / 138"),
    ("values", "Na\t138\nK\t4.1", "Na 138 K 4.1"),
    ("code", CODE, CODE),
    ("code", f"Sure! Here is a function:\n\n```python\n{CODE}\n```\nIt adds two numbers.", CODE),
    ("code", f"Here's an example of the code:\n{CODE}", CODE),
    ("code", '{"name": "<b>x</b>", "id": 3}', '{"name": "<b>x</b>", "id": 3}'),
    ("dialogue", DIALOGUE, DIALOGUE),
    ("dialogue", f"```\n{DIALOGUE}\n```", DIALOGUE),
    ("long", LETTER, LETTER),
]


@pytest.mark.parametrize(("form", "answer", "text"), ACCEPTED)
def test_a_text_of_the_form_is_used_as_it_is(form: str, answer: str, text: str) -> None:
    assert (cleaned(answer, form).text, cleaned(answer, form).reason) == (text, None)


@pytest.mark.parametrize("form", ["short", "values"])
def test_prose_leaves_such_texts_out(form: str) -> None:
    text = next(text for name, _, text in ACCEPTED if name == form)
    reason = cleaned(text, PROSE).reason
    assert reason is not None
    assert f"form: {form}" in limit_of(reason, "")


def test_lines_of_values_in_place_of_prose_name_the_form() -> None:
    text = "Ferritin 5 ng/ml L, Iron 19 ug/dl L, Haemoglobin 6.4 g/dl L, Chloride 97 mmol/l"
    assert cleaned(text, PROSE).reason == "wrong_language"
    assert "form: values" in limit_of("wrong_language", "")


REFUSED = [
    ("short", "!!", "too_short"),
    ("short", "I'm sorry, but I can't help with that.", "refusal"),
    ("short", "[Insert name here]", "placeholder"),
    ("values", "The patient is well and goes home.", "form"),
    ("values", "As an AI language model, I have no values 1 2 3.", "refusal"),
    ("code", "This function adds two numbers.", "form"),
    ("dialogue", "The customer called and asked for a new card.", "form"),
    ("dialogue", '```json\n{"agent": "Hello there"}\n```', "format"),
    ("long", "Dear [Name of the patient],\n\nwe saw you on Monday in our clinic.", "placeholder"),
]


@pytest.mark.parametrize(("form", "answer", "reason"), REFUSED)
def test_what_is_no_text_of_the_form_is_left_out(form: str, answer: str, reason: str) -> None:
    assert cleaned(answer, form).reason == reason


def test_the_language_of_values_is_not_judged() -> None:
    german = "Der Patient kommt mit Fieber, Husten und Schmerzen und geht wieder nach Hause. " * 2
    assert cleaned(german, "long").reason == "wrong_language"
    assert cleaned(f"{german} 1", "values").reason is None


def test_prompts_of_prose_without_a_length_are_those_of_earlier_versions() -> None:
    turn = Turn(plm_index=0, iteration=1, examples_per_prompt=4, contrast=True)
    prompts = [
        zero_shot(CARD, "heart", "", 0),
        prompt_for(CARD, Call(turn, "heart", 0, good=("one", "two"), bad=("three", "four"))),
        generation_prompt(CARD, Call(turn, "heart", 0), Manner(disclose=False), "", None),
        generation_prompt(
            CARD, Call(turn, "heart", 0), Manner(variation="paraphrase"), "", Parent(1, "A text.")
        ),
    ]
    # Written by the version before forms: stored completions belong to these keys.
    assert [prompt.key[:12] for prompt in prompts] == KEYS
    assert digest(CARD)[:12] == "0a3102cc9954"


KEYS = ["47d688dc2e91", "c645deb5081b", "40b2aee8a7a0", "bf3d99569c56"]


@pytest.mark.parametrize("form", [name for name in FORMS if name != PROSE])
def test_a_prompt_requests_form_and_length_before_its_last_line(form: str) -> None:
    text = zero_shot(
        replace(card(form, "300 words"), prompt_language="German"), "heart", "", 0
    ).text
    end = f"{FORMS[form].request} Its length is about 300 words. Write in German.\nNew entry of a ward:"
    assert text.endswith(f"quotation marks. {end}")
    turn = Turn(plm_index=0, iteration=1, listed=True)
    heading = prompt_for(card(form, "300 words"), Call(turn, "heart", 0)).text
    assert heading.startswith("Real examples of a entry of a ward of about 300 words.")


@pytest.mark.parametrize(("form", "has_lines"), [("code", True), ("long", True), ("values", False)])
def test_examples_have_their_lines_where_these_belong_to_the_form(
    form: str, has_lines: bool
) -> None:
    turn = Turn(plm_index=0, iteration=1, examples_per_prompt=2)
    call = Call(turn, "heart", 0, good=(CODE, LETTER))
    prompt = prompt_for(card(form), call)
    assert (CODE in prompt.text, LETTER in prompt.text) == (has_lines, has_lines)
    assert ("Each numbered text below" in prompt.text) == has_lines
    # A text is no echo of the examples' own words, which are no instruction.
    other = CODE.replace("add", "subtract").replace("+", "-")
    if form == "code":
        assert clean(other, prompt, form=form).reason is None
        assert clean(CODE, prompt, form=form).reason == "copied_example"
    listed = prompt_for(card(form), replace(call, turn=replace(turn, listed=True)))
    assert len(listed.text.splitlines()) == 4


class Repeating:
    """A model that always writes one word."""

    name = "one"
    identity = "one"

    def complete(self, prompts: list[Prompt], keep: object = None) -> list[Completion]:
        return [Completion("fever") for _ in prompts]


@pytest.mark.parametrize(("form", "number"), [("short", 4), ("values", 0), (PROSE, 0)])
def test_short_texts_may_repeat(form: str, number: int) -> None:
    job = WriteJob(card(form), "one", plm_index=0, iteration=0)
    made = generate(Repeating(), WritingRequest(job, {"heart": 4}, attempts=1))
    assert len(made.rows) == number


def test_the_form_of_a_task_reaches_the_judgement_of_answers() -> None:
    prompt = zero_shot(card("short"), "heart", "", 0)
    assert judge(Completion("fever"), prompt, card("short")).reason is None
    assert judge(Completion("fever"), prompt, CARD).reason == "too_short"


RECORDS = {
    "short": ["fever", "chest pain", "abd pain since 2 days", "rash"],
    "values": [VALUES, VALUES.replace("8", "9"), "Na 138; K 4.1; Cl 101"],
    "values with long names": [
        "Ferritin 7 ng/ml L; Haemoglobin 7.2 g/dl L; Sodium 139 mmol/l; Glucose 82 mg/dl",
        "Potassium: 5.8 mmol/l (high), Creatinine: 2,4 mg/dl, Urea 112 mg/dl",
        "Bilirubin = 6.2 mg/dl\nAlkaline phosphatase > 400 U/l\nChloride 97 mmol/l",
    ],
    "code": [CODE, "SELECT a FROM b", "import os\nos.remove('x')"],
    "dialogue": [DIALOGUE, DIALOGUE.replace("Agent", "Dr. Made Up")],
    "long": ["The patient came with pain and was kept for a night in our ward. " * 20] * 3,
    "long with headings": [
        "Findings: the pulse is regular.\nOn day 3: she went home.\nPlan: rest.\n"
        + "The patient came with pain and was kept for a night in our ward.\n" * 30
        + "Findings: the pulse is still regular.\nPlan: no more tablets.\n"
    ],
    PROSE: [
        "My parcel has not arrived yet.",
        "Name: Made Up\nWard: 3\nFinding: the pulse is regular.",
        "I paid 20 dollars on 3 May, and 12.50 today.",
        "My card ends with 4711, it was charged 30 euros, and nobody answers since Monday.",
        "He took 2 tablets at 8 in the morning, 1 at noon, and felt better within 3 days.",
        "有些患者在夜间咳嗽。",
    ],
}


@pytest.mark.parametrize("form", RECORDS)
def test_the_form_of_records_is_proposed(form: str) -> None:
    assert likely_form(RECORDS[form]) == form.partition(" with ")[0]


@pytest.mark.parametrize("text", RECORDS["values with long names"])
def test_values_with_long_names_are_told_from_sentences(text: str) -> None:
    assert likely_form([text]) == "values"


@pytest.mark.parametrize("text", RECORDS[PROSE][-3:])
def test_sentences_with_numbers_are_prose(text: str) -> None:
    assert likely_form([text]) == PROSE


def test_one_short_record_among_many_changes_nothing() -> None:
    assert likely_form(["ok", *["My parcel has not arrived yet."] * 19]) == PROSE


@pytest.mark.parametrize(
    ("form", "words", "stated"),
    [
        (PROSE, 99, None),
        (PROSE, 120, 100),
        ("short", 1, 1),
        ("long", 17_342, 20_000),
        ("long", 349, 300),
        ("values", 0, None),
    ],
)
def test_a_length_is_rounded_to_one_digit(form: str, words: int, stated: int | None) -> None:
    assert stated_words(form, words) == stated


@pytest.mark.parametrize(
    ("form", "words", "tokens"),
    [("", 0, 256), ("", 40, 256), ("", 300, 600), ("short", 2, 32), ("long", 20_000, 8192)],
)
def test_the_token_limit_follows_form_and_length(form: str, words: int, tokens: int) -> None:
    assert tokens_for(form, words) == tokens


def test_every_form_of_the_task_file_exists() -> None:
    from typing import get_args

    from flows.config.task_files import FormName

    assert get_args(FormName) == tuple(FORMS)


@pytest.mark.parametrize(("form", "number"), [("short", 2), ("values", 8), (PROSE, 8)])
def test_a_release_needs_fewer_different_texts_where_they_repeat(form: str, number: int) -> None:
    assert different_texts(card(form), 8) == {"heart": number, "skin": number}
