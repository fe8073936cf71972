"""From answers to texts. All texts here are invented."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.writing import cleaning_rules
from tasks.writing.cleaning import clean, normalised
from tasks.writing.prompts import Label, TaskCard, contrastive, zero_shot
from tests.support.paths import DATA

CARD = TaskCard(
    "films", "movie review", (Label("positive", "the writer liked the movie"), Label("negative"))
)
ASKED = zero_shot(CARD, "positive", "", 0)
EXAMPLE = (
    "The old lighthouse keeper steals every scene he is in, and the storm at the end is a wonder."
)
BAD = "Film good yes."
SHOWN = contrastive(CARD, "positive", "", [EXAMPLE], [BAD], 0)
FILM = "A warm and funny film about two brothers who build a boat in the attic."
RUSSIAN = "Это прекрасный фильм для всей семьи"


@pytest.mark.parametrize(
    "raw",
    [
        f'"{FILM}"',
        f'"{FILM}',
        f"\u201c{FILM}\u201d",
        f"- {FILM}",
        f"1. {FILM}",
        f"1. {FILM}\n2. Another film that nobody needs.\n3. And one more.",
        f"Here is a positive movie review:\n\n{FILM}",
        f"Here\u2019s one new review for you: {FILM}",
        f'Sure! Here\'s a positive movie review of the kind you want:\n\n"{FILM}"',
        f"Better movie review: {FILM}",
        f"**New movie review:** {FILM}",
        f"Review: {FILM}",
        f"```\n{FILM}\n```",
        f"```text\n{FILM}\n```\nI hope this helps.",
        f"**{FILM}**",
        f"# {FILM}",
        f"Title: The Attic Boat\n{FILM}",
        f"{FILM}\n\nLet me know if you need another one.",
        f"{FILM}\n\nNote: this one is warmer than the others.",
        f"{FILM}\nBad movie review 5: It was fine.",
        f'"{FILM}"\n\nThis new review captures the warmth of the examples.',
        f"  {FILM[:20]}\x00{FILM[20:]}\u200b \n",
        FILM.replace(" ", "\n", 2).replace(" ", "<br />", 1),
    ],
)
def test_what_surrounds_an_answer_is_trimmed(raw):
    assert clean(raw, SHOWN).text == FILM
    assert clean(raw, SHOWN).reason is None


@pytest.mark.parametrize(
    "text",
    [
        FILM,
        'The line "we are only passengers" is the best thing in it.',
        '"Passengers" is a film that I would see again.',
        "I read a review: it was bad, and they were right.",
        "My verdict is simple: see it on the largest screen you can find.",
        "10 out of 10, would watch again with my whole family.",
        "I can't recommend this movie enough, and I cannot think of a reason not to see it.",
        "As an actor he is limited; as a director he knows what he wants.",
        "Cancel my contract please",
        "L'acteur Jos\u00e9 Garc\u00eda is great in this one.",
        "The film (\u0420\u0443\u0431\u043b\u0451\u0432) is long and worth it.",
        "Slow...... so slow that I fell asleep, and not only once!!!",
        "It costs 20 dollars (10 for children) on Mondays & 25 on Sundays.",
    ],
)
def test_ordinary_texts_stay_as_they_are(text):
    assert clean(text, SHOWN) == clean(text, ASKED)
    assert (clean(text, SHOWN).text, clean(text, SHOWN).reason) == (text, None)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "empty"),
        (" \n\u200b", "empty"),
        ('""', "empty"),
        ("Here is a positive movie review:", "empty"),
        ("Great film", "too_short"),
        ("8 / 10 - ok", "too_short"),
        ("I loved <C> from start to finish.", "placeholder"),
        ("The acting in <unk> was good and so was the music.", "placeholder"),
        ("<|endoftext|> and then they all went home again.", "placeholder"),
        ("A film by [NAME] that I will not forget.", "placeholder"),
        ("In [movie title] the hero meets his match.", "placeholder"),
        ("The [insert genre here] film of the year.", "placeholder"),
        ("Dear {customer_name}, the film was great.", "placeholder"),
        ("Lorem ipsum dolor sit amet and so on.", "placeholder"),
        ("The film ____ was great fun for all of us.", "placeholder"),
        ("It\ufffds a lovely film for the whole family.", "garbled"),
        ("It\u00e2\u20ac\u2122s a lovely film for the whole family.", "garbled"),
        ("As an AI language model, I do not watch movies.", "refusal"),
        ("I'm sorry, but I can't assist with that.", "refusal"),
        ("I cannot write a review about this.", "refusal"),
        ("I\u2019m unable to generate this content for you.", "refusal"),
        ("I am not able to fulfill this request at the moment.", "refusal"),
        ("I apologize, but I won't create content of this kind.", "refusal"),
        ("This goes against my guidelines, so the content is left out.", "refusal"),
        ("It seems you're asking for a movie review; which movie is it?", "meta"),
        ("How can I assist you with your movie reviews today?", "meta"),
        ("To write a positive review, think of what you liked.", "meta"),
        ("It should read as if a real person had written it, and so it does.", "prompt_echo"),
        (EXAMPLE, "copied_example"),
        (EXAMPLE.upper() + "!", "copied_example"),
        (f"Well. {EXAMPLE} What a film!", "copied_example"),
        (BAD, "copied_example"),
        (RUSSIAN, "wrong_language"),
        (f"A fine film for the whole family. {RUSSIAN}", "wrong_language"),
        (
            "Este filme conta uma hist\u00f3ria muito bonita sobre dois irm\u00e3os que constroem um barco no "
            "s\u00f3t\u00e3o da casa onde nasceram e cresceram juntos",
            "wrong_language",
        ),
        ("What a film ************************* really", "punctuation"),
        ("abc def ghi 8/10 9/10 7/10 6/10 5/10 4/10 3/10 2/10", "punctuation"),
        ("It was so so so so so so good that I cried.", "repetition"),
        ("Never again this film. " * 6, "repetition"),
    ],
)
def test_what_is_no_text_of_the_data_set_is_refused_with_its_reason(raw, reason):
    prompt = ASKED if reason == "prompt_echo" else SHOWN
    assert clean(raw, prompt).reason == reason


@pytest.mark.parametrize(
    "text",
    [
        "I am sorry, but I cannot help with that request.",
        "I'm sorry, but I can\u2019t help with that.",
        "Sorry, I can't assist with that.",
        "I cannot help with this request.",
        "My apologies, but I cannot comply with this request.",
        "Unfortunately, I'm not able to help you with that.",
        "I must decline to answer this question.",
        "I won't be able to help with that topic.",
        "I'm really sorry, but I cannot assist you further.",
        "As an AI language model, I cannot have opinions.",
        "Es tut mir leid, aber ich kann dabei nicht helfen.",
        "Es tut mir leid, aber ich kann Ihnen bei dieser Anfrage nicht helfen.",
        "Leider kann ich dir nicht weiterhelfen.",
        "Als KI-Sprachmodell kann ich keine Meinung haben.",
        "Ich kann keine solchen Texte verfassen.",
        "Je suis d\u00e9sol\u00e9, mais je ne peux pas r\u00e9pondre \u00e0 cette demande.",
        "Lo siento, pero no puedo ayudarte con eso.",
        "Mi dispiace, ma non posso aiutarti con questa richiesta.",
        "\u62b1\u6b49\uff0c\u6211\u65e0\u6cd5\u6ee1\u8db3\u60a8\u7684\u8bf7\u6c42\u3002",
        "\u4f5c\u4e3a\u4e00\u4e2aAI\u8bed\u8a00\u6a21\u578b\uff0c\u6211\u6ca1\u6709\u4e2a\u4eba\u89c2\u70b9\u3002",
    ],
)
def test_what_assistants_say_when_they_refuse_is_a_refusal(text):
    assert clean(text, ASKED, "zh").reason == "refusal"


@pytest.mark.parametrize(
    "text",
    [
        "I am sorry but my card does not work.",
        "I'm sorry, but I cannot log in to my account since this morning.",
        "I am sorry, but I cannot help thinking that the film was too long.",
        "The agent said sorry, I cannot help with that request, and hung up on me.",
        "I can't help my son with the router that you sent.",
        "Unfortunately I cannot do the payment with your app.",
        "I cannot answer the phone when the internet is slow.",
        "Sorry, I can't do this any more: please cancel my contract.",
        "Unfortunately your service desk was not able to help.",
        "Es tut mir leid, aber ich kann meine Karte nicht finden.",
        "Leider konnte mir die Hotline nicht helfen.",
        "Als Kunde kann ich das nicht verstehen.",
        "Ich kann keine Nachrichten empfangen.",
        "Je suis d\u00e9sol\u00e9, mais ma carte ne marche pas.",
        "Lo siento, pero no puedo entrar en mi cuenta.",
        "\u62b1\u6b49\uff0c\u6211\u65e0\u6cd5\u767b\u5f55\u6211\u7684\u8d26\u6237\u3002",
    ],
)
def test_who_is_sorry_or_cannot_do_something_need_not_refuse(text):
    assert clean(text, ASKED, "zh").reason is None


def test_other_languages_are_judged_only_where_english_is_requested():
    chinese = "\u8fd9\u90e8\u7535\u5f71\u771f\u7684\u5f88\u597d\u770b"
    assert clean(RUSSIAN, ASKED, "ru").reason is None
    assert clean(chinese, ASKED, "zh").reason is None
    assert clean(RUSSIAN, ASKED, "en").reason == "wrong_language"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_no_answer_breaks_cleaning_and_every_kept_text_can_be_written_to_a_file(raw):
    cleaned = clean(raw, SHOWN)
    cleaned.text.encode("utf-8")
    assert cleaned.text == " ".join(cleaned.text.split())
    assert cleaned.text or cleaned.reason


def test_a_long_answer_is_cleaned_in_a_moment():
    for unit in (
        "a ",
        '"',
        "(",
        "[your ",
        "1. x\n",
        "****",
        "i cannot ",
        "<a",
        "as an a ",
        "it seems ",
    ):
        clean(unit * 4000, SHOWN)


def test_texts_that_differ_in_case_blanks_or_compatible_characters_count_as_the_same():
    assert normalised(" A\u00a0Fine  FILM\n") == normalised("a fine \uff46ilm") == "a fine film"


REAL = sorted((DATA / "plm_outputs" / "imdb").glob("*.parquet")) or [DATA / "missing"]


@pytest.mark.real_data
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_most_answers_of_real_models_are_kept_and_none_with_a_placeholder(path):
    if not path.exists():
        pytest.skip("no recorded answers here")
    texts = pd.read_parquet(path, columns=["text"])["text"].iloc[:1500]
    stored = [
        cleaned.text for cleaned in (clean(text, ASKED) for text in texts) if cleaned.reason is None
    ]
    assert 0.5 < len(stored) / len(texts) <= 1
    marks = ("<C>", "<unk>", "<c>", "[MOVIE", "lorem ipsum", "As an AI language model", "\x00")
    assert not any(mark in text for text in stored for mark in marks)
    assert not any(
        pattern.search(text) for text in stored for pattern in cleaning_rules.PLACEHOLDERS
    )


@pytest.mark.real_data
@pytest.mark.parametrize("task", ["imdb", "banking10", "yelp_rating", "openreview2017_area"])
def test_hardly_a_text_that_people_wrote_is_refused(task):
    path = DATA / task / "test.parquet"
    if not path.exists():
        pytest.skip("no real texts here")
    texts = pd.read_parquet(path, columns=["text"])["text"].iloc[:500]
    refused = sum(clean(text, ASKED).reason is not None for text in texts)
    assert refused / len(texts) < 0.03
