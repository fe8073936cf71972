"""Prompts of language models."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ConfigError
from tasks.writing.prompts import (
    Call,
    Label,
    TaskCard,
    Turn,
    contrastive,
    examples_for,
    prompt_for,
    seed_of,
    zero_shot,
)

CARD = TaskCard(
    name="teas",
    item="tea review",
    labels=(Label("green", "about green tea", ("sencha",)), Label("black")),
    attribute="mood",
    values=("calm", "angry"),
)
GOOD = tuple(f"good text {n}" for n in range(8))
BAD = tuple(f"bad text {n}" for n in range(8))


def call(**changes):
    turn = {
        "seed": 1,
        "iteration": 2,
        "plm_index": 0,
        "examples_per_prompt": 8,
        "contrast": True,
        "listed": False,
        "texts_per_prompt": 1,
    }
    shared = Turn(**{name: changes.pop(name, value) for name, value in turn.items()})
    return Call(
        **({"turn": shared, "label": "green", "ordinal": 5, "good": GOOD, "bad": BAD} | changes)
    )


def test_a_zero_shot_prompt_names_item_label_description_and_attribute():
    prompt = zero_shot(CARD, "green", "calm", 7)
    for part in ("tea review", '"green" (about green tea)', 'mood "calm"'):
        assert part in prompt.text
    assert (prompt.label, prompt.attribute, prompt.seed, prompt.max_tokens) == (
        "green",
        "calm",
        7,
        256,
    )
    assert prompt.description == "about green tea sencha"
    assert "{" not in prompt.text
    assert "mood" not in zero_shot(CARD, "black", "", 0).text


def test_a_contrastive_prompt_shows_the_bad_examples_before_the_good_ones_and_then_the_request():
    text = contrastive(CARD, "black", "", GOOD[:2], BAD[:2], 0).text
    places = [
        text.index(part)
        for part in ("bad text 0", "bad text 1", "good text 0", "good text 1", "midway")
    ]
    assert places == sorted(places)
    text = contrastive(CARD, "black", "", GOOD[:2], (), 0).text
    assert "good text 1" in text
    assert not re.search("Bad|midway", text)


def test_a_listed_prompt_is_the_beginning_of_a_list_of_good_examples():
    asked = prompt_for(
        CARD,
        call(good=("one\nline", "{label}"), bad=("worse",), examples_per_prompt=3, listed=True),
    )
    lines = asked.text.splitlines()
    assert sorted(line[3:] for line in lines[1:3]) == ["one line", "{label}"]
    assert (lines[3:], asked.end, asked.bad) == (["3."], "\n", ())
    first = prompt_for(CARD, call(good=(), listed=True))
    assert first.text.splitlines()[1:] == ["1."]
    assert "sencha" not in first.text  # the task varies an attribute instead
    plain = replace(CARD, attribute="", values=())
    assert (
        ' about "sencha". Topic: about green tea.'
        in prompt_for(plain, call(good=(), listed=True)).text
    )
    assert first.key != zero_shot(CARD, first.label, "", first.seed).key


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="{}abgd itemlol\\%s$1\n", max_size=30))
def test_an_example_stays_on_its_line_and_its_braces_as_they_are(sample):
    prompt = contrastive(CARD, "green", "calm", [sample, "{bad}\n\n{label}"], ["{0}\t{good}"], 0)
    assert f"Good tea review 1: {' '.join(sample.split())}\n" in prompt.text
    assert "{bad} {label}" in prompt.text
    assert "{0} {good}" in prompt.text
    assert prompt.good == (sample, "{bad}\n\n{label}")


def test_an_unknown_label_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'white'.*green, black"):
        zero_shot(CARD, "white", "", 0)


@pytest.mark.parametrize(
    ("size", "contrast", "good", "bad"),
    [(8, True, 4, 4), (7, True, 4, 3), (2, True, 1, 1), (20, True, 8, 8), (8, False, 8, 0)],
)
def test_each_generation_draws_half_good_and_half_bad_with_the_odd_one_good(
    size, contrast, good, bad
):
    drawn_good, drawn_bad = examples_for(call(examples_per_prompt=size, contrast=contrast))
    assert (len(set(drawn_good)), len(set(drawn_bad))) == (good, bad)
    assert set(drawn_good) <= set(GOOD)
    assert set(drawn_bad) <= set(BAD)


@pytest.mark.parametrize(
    "change",
    [{"seed": 2}, {"iteration": 3}, {"plm_index": 1}, {"label": "black"}, {"ordinal": 6}],
    ids=str,
)
def test_every_place_in_the_run_has_its_own_draw_and_seed(change):
    assert examples_for(call(**change)) != examples_for(call())
    assert prompt_for(CARD, call(**change)).seed != prompt_for(CARD, call()).seed
    assert prompt_for(CARD, call(**change), "calm") == prompt_for(CARD, call(**change), "calm")


@pytest.mark.parametrize("change", [{}, {"listed": True}, {"good": (), "bad": ()}], ids=str)
def test_generations_that_share_a_draw_differ_in_their_seed_alone(change):
    prompts = [
        prompt_for(CARD, call(ordinal=ordinal, texts_per_prompt=4, **change), "calm")
        for ordinal in range(8)
    ]
    assert len({prompt.seed for prompt in prompts}) == 8
    plain = [replace(prompt, seed=0) for prompt in prompts]
    assert plain[:4] == [plain[0]] * 4
    assert plain[4:] == [plain[4]] * 4
    if "good" not in change:
        assert plain[0] != plain[4]


def test_lists_without_examples_share_the_word_of_their_class():
    words = tuple(f"word{number}" for number in range(40))
    card = TaskCard(name="teas", item="review", labels=(Label("green", words=words),))
    texts = [
        prompt_for(
            card, call(ordinal=ordinal, good=(), bad=(), listed=True, texts_per_prompt=5)
        ).text
        for ordinal in range(20)
    ]
    assert [texts.count(text) for text in texts[::5]] == [5, 5, 5, 5]


@pytest.mark.parametrize("listed", [False, True])
def test_one_text_per_prompt_is_the_prompt_of_earlier_versions(listed):
    recorded = ["ccdd70b9f8022cc4", "317ba47d476c82d0"]
    assert prompt_for(CARD, call(listed=listed), "calm").key[:16] == recorded[listed]


def test_over_many_generations_every_sample_is_shown_about_equally_often():
    drawn = [text for ordinal in range(400) for text in examples_for(call(ordinal=ordinal))[0]]
    assert all(120 < drawn.count(text) < 280 for text in GOOD)


@pytest.mark.parametrize(("good", "bad"), [((), ()), (("one text",), ()), ((), ("bad", "worse"))])
def test_fewer_than_two_examples_or_none_good_fall_back_to_zero_shot(good, bad):
    prompt = prompt_for(CARD, call(good=good, bad=bad), "calm")
    assert prompt.good == prompt.bad == ()
    assert prompt.text == zero_shot(CARD, "green", "calm", 0).text


def test_seeds_are_the_same_on_every_machine_and_fit_31_bits():
    assert seed_of("prompt", 1, "x") == seed_of("prompt", 1, "x")
    assert seed_of(1, "2") != seed_of("1", 2)
    assert all(0 <= seed_of(n) < 2**31 for n in range(200))
    assert prompt_for(CARD, call(attempt=1)).seed != prompt_for(CARD, call()).seed
