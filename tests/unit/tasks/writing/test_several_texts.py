"""Answers that are not one whole text: lists, data, pages, planning aloud, texts that end in the middle."""

import pytest

from connectors.interfaces.models import Completion
from tasks.writing.cleaning import clean
from tasks.writing.endings import ends_in_the_middle
from tasks.writing.first_answers import Tally, judge
from tasks.writing.prompts import Label, TaskCard, zero_shot

CARD = TaskCard("ward", "clinic note", (Label("pain"), Label("breathing problems")))
ASKED = zero_shot(CARD, "breathing problems", "", 0)
FIRST = "The patient reports a dull pain in the knee since last week."
TEXTS = (
    FIRST,
    "My neighbour noticed a red rash on both arms after a walk.",
    "An older man asks about a cough at night.",
)


def listed(form: str, between: str = "\n") -> str:
    return between.join(
        form.format(n=number, text=text) for number, text in enumerate(TEXTS, start=1)
    )


LISTS = {
    "numbers": listed("{n}. {text}"),
    "brackets": listed("({n}) {text}"),
    "bold numbers": listed("**{n}.** {text}"),
    "hashes": listed("#{n} {text}"),
    "dashes": listed("- {text}"),
    "stars": listed("* {text}"),
    "dots": listed("\u2022 {text}", "\n\n"),
    "names": listed("Note {n}: {text}"),
    "bold names": listed("**Clinic note {n}**\n{text}", "\n\n"),
    "headings": listed("### Example {n}\n{text}", "\n\n"),
    "german names": listed("Beispiel {n}: {text}"),
    "letters": f"Option A: {TEXTS[0]}\nOption B: {TEXTS[1]}",
    "ordinals": f"First note: {TEXTS[0]}\n\nSecond note: {TEXTS[1]}",
    "repeated names": f"Note: {TEXTS[0]}\n\nNote: {TEXTS[1]}",
    "announced bullets": "Here are some examples:\n\n" + listed("- **Note {n}:** {text}"),
    "announced paragraphs": "Here are three clinic notes:\n\n" + listed("{text}", "\n\n"),
    "announced lines": "Sure! Below are 3 notes for you:\n" + listed("{text}"),
    "announced in German": "Nat\u00fcrlich! Hier sind drei Beispiele:\n\n" + listed("- {text}"),
    "announced in French": "Voici trois exemples :\n\n" + listed("* {text}"),
    "rules": listed("{text}", "\n\n---\n\n"),
    "underscores": listed("{text}", "\n___\n"),
    "quotes": listed('"{text}"', "\n\n"),
}


@pytest.mark.parametrize("raw", LISTS.values(), ids=LISTS)
def test_the_first_of_several_texts_is_used_and_marked(raw: str) -> None:
    cleaned = clean(raw, ASKED)
    assert (cleaned.text, cleaned.reason, cleaned.is_first_of_several) == (FIRST, None, True)


@pytest.mark.parametrize(
    "text",
    [
        "I have these problems:\n- My knee hurts since last week.\n- My back hurts on the stairs.\nPlease help.",
        "Here are the breathing problems that I have:\n- My chest feels tight.\n- I cough all night.",
        "HISTORY:\nPain in the knee.\n\nEXAM:\n- swelling\n- warm skin\n\nPLAN:\n1. rest\n2. cold packs",
        "- rest in the evening\n- cold packs\n- tablets",
        "The patient has pain.\n\nHe asks for help.\n\nHe will come back.",
        "Step 1: I opened the app.\nStep 2: It crashed and I lost my data.",
        "1. It hurts. 2. It is warm. 3. It does not heal.",
        "The user reports that the screen is black and asks for a refund.",
        "I need to write a complaint about my knee surgery.",
        "[The patient is deaf] He shows a red rash on his arm.",
        "Select a time that fits and call me from home.",
    ],
)
def test_a_text_with_a_list_or_an_odd_beginning_is_one_text(text: str) -> None:
    cleaned = clean(text, ASKED)
    assert (cleaned.reason, cleaned.is_first_of_several) == (None, False)
    assert cleaned.text.split()[-2:] == text.split()[-2:]


@pytest.mark.parametrize(
    "raw",
    [
        f'```json\n{{"note": "{FIRST}", "label": "pain"}}\n```',
        f'{{"note": "{FIRST[:40]}',
        f'["{FIRST}", "{TEXTS[1]}"]',
        f'Here is the note as requested:\n\n```json\n{{"note": "{FIRST}"}}\n```',
        f'"note": "{FIRST}"',
        f'{FIRST}", "label": "pain"}}',
        f"<div><h2>{FIRST}</h2><p>It is new.</p></div>",
        f"<!DOCTYPE html>\n<html><body>{FIRST}</body></html>",
        f"<note>{FIRST}</note>",
        f'{FIRST} See <a href="page">the note</a>.',
        f"| date | finding |\n|---|---|\n| Monday | {FIRST} |",
        f'text,label\n"{FIRST}",pain',
        f"```python\ndef note():\n    return '{FIRST}'\n```",
        f"import random\n\nnotes = ['{FIRST}']",
    ],
)
def test_data_pages_and_code_are_no_text_unless_the_prompt_names_them(raw: str) -> None:
    assert clean(raw, ASKED).reason == "format"
    asked = zero_shot(CARD, "pain", "", 0)
    named = TaskCard("x", "JSON, HTML, table or Python record", CARD.labels)
    assert clean(raw, zero_shot(named, "pain", "", 0)).reason != "format"
    assert clean(raw, asked).reason == "format"


@pytest.mark.parametrize(
    "beginning",
    [
        "Okay, the user wants a note about a patient.",
        "The user wants a clinic note. Let me plan:",
        "We need to produce a clinic note of the class pain.",
        "Alright, let me think about a note:",
        "First, I need to think about the class.",
        "Thinking process: the class comes first.",
    ],
)
def test_planning_aloud_is_a_comment_on_the_request(beginning: str) -> None:
    assert clean(f"{beginning} {FIRST}", ASKED).reason == "meta"


@pytest.mark.parametrize(
    ("text", "finish_reason", "is_cut"),
    [
        (FIRST, "length", False),
        ("The patient reports a dull", "length", True),
        ("The patient reports a dull", "stop", False),
        (f"{FIRST} He also says that it is worse in the", "stop", True),
        (f"{FIRST} Kind regards, the night shift", "stop", False),
        (f'{FIRST} "It burns."', "length", False),
        ("\u60a3\u8005\u81ea\u8ff0\u819d\u76d6\u75bc\u75db\u3002", "length", False),
        ("\u60a3\u8005\u81ea\u8ff0\u819d\u76d6", "length", True),
    ],
)
def test_a_text_that_ends_in_the_middle_is_recognised(
    text: str, finish_reason: str, is_cut: bool
) -> None:
    assert ends_in_the_middle(text, finish_reason) is is_cut


def test_a_progress_line_counts_by_reason() -> None:
    tally = Tally()
    answers = (
        Completion('{"note": "cut', "length"),
        Completion("I'm sorry, but I can't help with that request."),
        Completion("", "refused"),
        Completion(LISTS["dashes"]),
        Completion("The patient reports a dull", "length"),
    )
    for completion in answers:
        tally.add(judge(completion, ASKED, CARD), completion)
    assert str(tally) == "3 left out (2 refusal, 1 format), 1 cut, 1 first of several"
