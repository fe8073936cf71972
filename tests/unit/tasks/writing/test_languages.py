# ruff: noqa: RUF001  (texts in other scripts)
"""Tasks in another language than English: prompts that request it, texts in another one, phrases without blanks."""

from dataclasses import replace

import pytest

from connectors.interfaces.languages import NAMES
from tasks.writing import prompts
from tasks.writing.cleaning import clean
from tasks.writing.keyphrase_prompts import Seeding, count_used, seeded
from tasks.writing.language_check import is_foreign, is_recognised, likely_language
from tasks.writing.prompts import Call, Label, TaskCard, Turn, as_declared, prompt_for, zero_shot
from tasks.writing.variation import Manner, Parent, generation_prompt
from tests.support.data.notes import CLASSES, FINDINGS, notes

CARD = TaskCard("notizen", "Arztbrief", tuple(map(Label, CLASSES)), language="de")
GERMAN = replace(CARD, prompt_language="German")
LANGUAGES = ("en", "de", "fr", "zh", "ar")
TEXTS = ("Erster Text.", "Zweiter Text.", "Dritter Text.", "Vierter Text.")


def call(**turn: object) -> Call:
    values = {"plm_index": 0, "iteration": 1, "examples_per_prompt": 4, "contrast": True}
    return Call(Turn(**{**values, **turn}), "heart", 0, good=TEXTS[:2], bad=TEXTS[2:])


def all_prompts(card: TaskCard) -> list[str]:
    """Return a prompt of each kind."""
    parent = Parent(3, "Der Puls ist unregelmäßig.")
    made = [
        zero_shot(card, "heart", "", 0),
        prompt_for(card, call()),
        prompt_for(card, call(contrast=False)),
        prompt_for(card, call(listed=True)),
        generation_prompt(card, call(), Manner(disclose=False), "", None),
        generation_prompt(card, call(), Manner(variation="paraphrase"), "", parent),
        generation_prompt(card, call(), Manner(variation="blanks"), "", parent),
        generation_prompt(card, call(listed=True), Manner(variation="paraphrase"), "", parent),
        seeded(card, call(), Seeding({"heart": (("Puls",),)})),
        seeded(card, call(listed=True), Seeding({"heart": (("Puls",),)})),
    ]
    return [prompt.text for prompt in made]


def test_every_kind_of_prompt_requests_the_language_once() -> None:
    for plain, german in zip(all_prompts(CARD), all_prompts(GERMAN), strict=True):
        assert "German" not in plain
        assert german.count("German") == 1, german
        without = german.replace(" Write in German.", "").replace(" in German", "")
        assert without == plain


def test_a_prompt_ends_as_it_does_in_english() -> None:
    text = zero_shot(GERMAN, "heart", "", 0).text
    assert text.endswith("quotation marks. Write in German.\nNew Arztbrief:")
    heading = prompt_for(GERMAN, call(listed=True)).text.splitlines()[0]
    assert heading == "Real examples of a Arztbrief in German. Topic: heart."


def test_templates_of_a_task_file_stay_as_they_are() -> None:
    own = replace(GERMAN, zero_shot="Schreibe einen {item} zu {label}.", list_heading="Zu {topic}:")
    assert zero_shot(own, "heart", "", 0).text == 'Schreibe einen Arztbrief zu "heart".'
    assert prompt_for(own, call(listed=True)).text.startswith("Zu heart:\n")
    assert "Write in German." in prompt_for(own, call()).text, "the others are not the user's"


def test_without_a_language_a_template_is_unchanged() -> None:
    for template in (prompts.ZERO_SHOT, prompts.CONTRASTIVE, prompts.LIST_HEADING):
        assert as_declared(template, CARD) == template


# --- texts in another language
@pytest.mark.parametrize("language", [code for code in LANGUAGES if code != "en"])
def test_notes_in_the_language_stay_and_those_in_others_are_left_out(language: str) -> None:
    for text, _ in notes(language):
        assert not is_foreign(text, language), text
        # A first sentence alone is short.
        first = text.split(". ")[0].split("。")[0]
        assert not is_foreign(first, language), first
    for other in LANGUAGES:
        if other != language:
            texts = [text for text, _ in notes(other)]
            assert all(is_foreign(text, language) for text in texts), (other, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Herzkatheter", "de"),
        ("CRP 120 mg/l, Hb 9,8 g/dl, RR 140/90 mmHg", "de"),
        ("Pat. m, 64 J., Z. n. NSTEMI, Stent LAD, DAPT für 12 Monate", "de"),
        ("Aspirin 100 mg 1-0-0, Metoprolol 47,5 mg 1-0-1, Ramipril 5 mg", "de"),
        ("Ulcus cruris venosum links, Vancomycin i.v.", "de"),
        ("Update auf Windows 11 fehlgeschlagen, Bluescreen", "de"),
        ("Check-in rapide, lobby super, staff sympa", "fr"),
        ("MAIL AN DR. MÜLLER: BEFUND OHNE AUFFÄLLIGKEITEN", "de"),
        ("Meeting um 10 Uhr, bitte Laptop und Slides mitbringen", "de"),
        ("发烧咳嗽", "zh"),
        ("CT检查未见异常", "zh"),
        ("12345 67890", "fr"),
        ("", "ar"),
    ],
)
def test_a_few_words_and_abbreviations_are_not_judged_or_stay(text: str, language: str) -> None:
    assert not is_foreign(text, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Bonjour, ma carte ne fonctionne plus depuis hier soir, que dois-je faire ?", "de"),
        ("Dear colleague, thank you for the referral of this patient.", "fr"),
        ("She is Her Majesty, a tall woman.", "de"),
        ("EIN SKULL: A Jewish religious ritual, performed by special rabbis", "de"),
        ("Here is a short clinical note about the heart.", "zh"),
        ("Уважаемые коллеги, пациент поступил вчера вечером.", "ar"),
    ],
)
def test_sentences_in_another_language_are_left_out(text: str, language: str) -> None:
    assert is_foreign(text, language)


def test_close_languages_are_not_told_apart() -> None:
    danish = "Patienten kom mandag, fordi han havde ondt i brystet, og fik det bedre efter to dage."
    assert not is_foreign(danish, "no")
    assert is_foreign(danish, "de")


def test_cleaning_judges_the_language_of_tasks_that_request_it() -> None:
    english = "The patient reports chest pain since Monday and takes no medicine."
    prompt = zero_shot(GERMAN, "heart", "", 0)
    assert clean(english, prompt, "de", is_recognised=True).reason == "wrong_language"
    assert clean(english, prompt, "de").reason is None, "a run of an earlier version"
    german = "Der Patient klagt seit Montag über Schmerzen in der Brust."
    assert clean(german, prompt, "de", is_recognised=True).reason is None


def test_the_languages_of_the_tests_are_recognised_and_rare_ones_are_not() -> None:
    assert all(map(is_recognised, LANGUAGES))
    assert not is_recognised("ia")
    assert not is_foreign("The patient reports chest pain since Monday.", "ia")
    assert sum(map(is_recognised, NAMES)) > 90


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_of_rows_is_proposed(language: str) -> None:
    assert likely_language([text for text, _ in notes(language)]) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The router in my office is slow and it was fine with the old one", "en"),
        ("Der Router ist langsam und ich kann nicht auf das Internet zu den Kunden", "de"),
        ("La connexion est lente et je ne suis pas dans les temps pour une réunion", "fr"),
        ("El router es lento y no puedo trabajar con los clientes por una hora", "es"),
        ("路由器很慢 我无法上网", "zh"),
        ("ルーターが遅いです", "ja"),
        ("Роутер работает медленно", "ru"),
        ("42 !", "en"),
    ],
)
def test_the_language_of_a_few_texts(text: str, language: str) -> None:
    assert likely_language([text]) == language


# --- phrases in scripts without blanks
@pytest.mark.parametrize(
    ("text", "phrases", "used"),
    [
        ("患者因心力衰竭入院，双腿浮肿。", ("心力衰竭", "双腿浮肿", "肺炎"), 2),
        ("患者はCT検査で肺炎と診断された。", ("肺炎", "CT検査", "骨折"), 2),
        ("ผู้ป่วยมีอาการไอแห้งและหายใจลำบาก", ("ไอแห้ง", "ปวดหลัง"), 1),
        ("Der Puls ist unregelmäßig.", ("puls", "Pulsader"), 1),
    ],
)
def test_phrases_are_found_in_scripts_without_blanks(
    text: str, phrases: tuple[str, ...], used: int
) -> None:
    assert count_used(text, phrases) == used


def test_every_finding_is_found_in_its_note() -> None:
    for language in LANGUAGES:
        phrases = [phrase for label in CLASSES for phrase in FINDINGS[language][label].split("|")]
        for text, _ in notes(language):
            assert count_used(text, phrases) >= 1, text
