"""Task files: those that ship, and those that users write."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError
from flows.config.task_files import load_task, shipped_tasks
from tasks.writing.prompts import CONTRASTIVE, Call, Turn, fill, prompt_for
from tests.support.paths import DATA

SMALL = "name: teas\nitem: tea review\nlabels: [green, black]\n"


@pytest.fixture
def task(tmp_path):
    def load(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return load_task(path)

    return load


PRINTED = "_as_printed"
QUOTES = str.maketrans({"\u2019": "'", "\u201c": '"', "\u201d": '"'})
"""Typographic quotation marks of the paper, and what the prompts have."""
QUEUES = "support_queues"
OWN_PROMPTS = [name for name in shipped_tasks() if not name.endswith(PRINTED)]
AS_PRINTED = [name for name in shipped_tasks() if name.endswith(PRINTED)]


@pytest.mark.parametrize("name", OWN_PROMPTS)
def test_every_shipped_task_gives_prompts_without_an_open_placeholder(name):
    card = load_task(name)
    assert card.name == name
    # Of the queues nothing is known but their numbers.
    described = {bool(label.description) for label in card.labels}
    assert described == {name != QUEUES}
    for label in card.label_names:
        turn = Turn(plm_index=0, iteration=1, examples_per_prompt=8, contrast=True)
        call = Call(turn, label, 0, good=("one fine text", "two"), bad=("a bad text", "worse"))
        for attribute in card.values or ("",):
            for entry in (call, Call(turn, label, 0)):
                text = prompt_for(card, entry, attribute).text
                assert f'"{label}"' in text
                assert card.item in text
                assert f'"{attribute}"' in text or not attribute
                assert "{" not in text


def test_the_tasks_of_the_papers_and_the_support_desk_ship_with_their_classes_and_attributes():
    cards = {name: load_task(name) for name in OWN_PROMPTS}
    assert {name: (len(card.labels), len(card.values)) for name, card in cards.items()} == {
        "banking10": (10, 0), "dbpedia14": (14, 0), "discharge_notes": (2, 0), "imdb": (2, 0), "mtsamples": (40, 0),
        "openreview_area": (12, 5), "openreview_rating": (5, 12), "support_desk": (6, 0), QUEUES: (6, 0),
        "yelp_category": (10, 5), "yelp_rating": (5, 10),
    }  # fmt: skip


WITHOUT_ROWS = ("support_desk", QUEUES, "discharge_notes")


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        (name, name.replace("openreview", "openreview2017"))
        for name in OWN_PROMPTS
        if name not in WITHOUT_ROWS
    ],
)
def test_labels_are_spelled_as_in_the_data(name, folder):
    path = DATA / folder / "train.parquet"
    if not path.exists():
        pytest.skip("no real rows here")
    rows, card = pd.read_parquet(path), load_task(name)
    assert set(card.label_names) == set(rows["label"])
    assert set(card.values) <= set(rows.get("attribute", []))


@pytest.mark.real_data
@pytest.mark.parametrize("name", AS_PRINTED)
def test_prompts_as_printed_are_those_of_table_7(name):
    paper = next(iter((DATA.parent / "papers").glob("000_*.txt")), None)
    if paper is None:
        pytest.skip("the paper is not here")
    printed = paper.read_text(encoding="utf-8").translate(QUOTES)
    card = load_task(name)
    for template in (card.good_only, card.contrastive):
        _, _, instruction = template.rpartition("\n\n")
        assert fill(instruction, {"label_name": "<label>", "attribute_value": "<attribute>"}) in (
            printed
        )
    for line in (
        fill(card.good_only_example, {"text": "<sample_1>"}),
        fill(card.example, {"quality": "bad", "text": "<sample_1>"}),
    ):
        assert line in printed


@pytest.mark.parametrize("name", AS_PRINTED)
def test_prompts_as_printed_show_their_examples_and_class_as_the_paper_does(name):
    card = load_task(name)
    original = load_task(name.removesuffix(PRINTED))
    assert (card.labels, card.values) == (original.labels, original.values)
    value = (*card.values, "")[0]
    turn = Turn(plm_index=0, iteration=1, examples_per_prompt=2, contrast=True)
    call = Call(turn, card.label_names[0], 0, good=("fine",), bad=("poor {text}",))
    first, second, *_ = prompt_for(card, call, value).text.splitlines()
    assert re.fullmatch(r"A bad [\w ]+ is: poor \{text\}", first)
    assert re.fullmatch(r"A good [\w ]+ is: fine", second)
    alone = replace(call, turn=replace(turn, contrast=False), good=("fine", "finer"))
    lines = prompt_for(card, alone, value).text.splitlines()
    assert all(re.fullmatch(r"The [\w ]+ is: finer?", line) for line in lines[:2])
    assert card.label_names[0] in lines[-1]
    assert value in lines[-1]


def test_a_task_that_extends_another_changes_what_it_writes(task, tmp_path):
    (tmp_path / "base.yaml").write_text(
        SMALL + "instructions: {example: '{Quality}: {text}', zero_shot: 'A {label} tea'}\n"
    )
    card = task("name: mine\nextends: base.yaml\ninstructions: {zero_shot: 'One {label_name}'}\n")
    assert (card.name, card.item, card.label_names) == ("mine", "tea review", ("green", "black"))
    assert (card.zero_shot, card.example) == ("One {label_name}", "{Quality}: {text}")
    with pytest.raises(ConfigError, match=r"mine\.yaml: extends: .*mine\.yaml extends this file"):
        task("extends: mine.yaml\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: extends: task: there is no task 'imbd'"):
        task("extends: imbd\n")


def test_name_item_and_labels_are_enough(task):
    card = task(SMALL)
    assert (card.name, card.item, card.label_names) == ("teas", "tea review", ("green", "black"))
    assert (card.contrastive, card.max_tokens, card.language, card.attribute) == (
        CONTRASTIVE,
        256,
        "en",
        "",
    )


def test_a_task_without_labels_has_no_class_in_its_prompts(task):
    card = task("name: notes\nitem: note\n")
    assert (card.has_classes, card.label_names) == (False, ("all",))
    texts = [f"text {number}" for number in range(4)]
    turn = Turn(plm_index=0, iteration=1, examples_per_prompt=2, contrast=True)
    for prompt in (
        prompt_for(card, Call(turn, "all", 0)),
        prompt_for(card, Call(turn, "all", 0, good=texts[:2], bad=texts[2:])),
        prompt_for(card, Call(replace(turn, contrast=False), "all", 0, good=texts)),
        prompt_for(card, Call(replace(turn, listed=True), "all", 0, good=texts)),
    ):
        assert not {"class", "all", "{"} & set(re.findall(r"\w+|\{", prompt.text)), prompt.text
    own = task("name: notes\nitem: note\ninstructions: {zero_shot: 'One {item}'}\n")
    assert prompt_for(own, Call(turn, "all", 0)).text == "One note"


def test_every_field_arrives_in_the_card(task):
    card = task(
        "name: teas\nitem: tea review\nlanguage: de\nmax_tokens: 50\n"
        "labels:\n  - {name: green, description: fresh, words: [sencha, matcha]}\n  - black\n"
        "attribute: {name: mood, values: [calm, angry]}\n"
        "instructions:\n  zero_shot: 'A {item} of {label}{attribute}'\n"
        "  contrastive: 'Not {bad} but {good}, of {label}'\n  good_only: 'Like {good}, of {label}'\n"
    )
    assert card.labels[0].words == ("sencha", "matcha")
    assert (card.attribute, card.values, card.language, card.max_tokens) == (
        "mood",
        ("calm", "angry"),
        "de",
        50,
    )
    prompt = prompt_for(card, Call(Turn(plm_index=0, iteration=0), "green", 0), "calm")
    assert prompt.text == 'A tea review of "green" (fresh), with the mood "calm"'
    assert prompt.max_tokens == 50


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SMALL + "atribute: {name: x, values: [y]}\n",
            "atribute: unknown key; did you mean 'attribute'",
        ),
        (
            "name: t\nitem: i\nlabels:\n  - b\n  - {nam: a}\n",
            r"labels.1.nam: unknown key; did you mean 'name'.*line 5",
        ),
        ("name: t\nlabels: [a, b]\n", "item: is missing"),
        (
            "name: t\nitem: i\nlabels: [a]\n",
            "labels: a task has two labels or more. Add one, or remove labels for texts",
        ),
        (
            "name: t\nitem: i\ninstructions: {zero_shot: 'Write {label}'}\n",
            r"instructions.zero_shot: the task has no labels for \{label\}. Remove it",
        ),
        ("name: t\nitem: i\nlabels: [a, ' ']\n", r"labels.1.name: is empty. Write a text"),
        (
            f"name: t\nitem: i\nlabels: [a, {'x' * 201}]\n",
            r"labels.1.name: has 201 characters, more than 200. .*x\.\.\.\)",
        ),
        ("name: t\nitem: i\nlabels: [a, b, a]\n", "labels: label 'a' is defined twice"),
        ("name: t\nitem: i\nlabels: [1.0, 2.0]\n", r"labels.0.name: .*in quotes"),
        ("name: t\nitem: i\nlabels: [yes, no]\n", r"labels.0.name: .*in quotes"),
        (SMALL + "attribute: {name: x, values: []}\n", "attribute.values: "),
        (
            SMALL + "attribute: {name: x, values: [y, y]}\n",
            "attribute.values: value 'y' is defined twice",
        ),
        (
            SMALL + "instructions: {zero_shot: 'Write {label} {lable}'}\n",
            r"instructions.zero_shot: .*\{lable\}",
        ),
        (
            SMALL + "instructions: {zero_shot: 'Write {label} like {good}'}\n",
            r"unknown placeholder \{good\}",
        ),
        (
            SMALL + "instructions: {contrastive: 'Write {label} like {good}'}\n",
            r"contrastive: .*\{bad\} is missing",
        ),
        (
            SMALL + "instructions: {example: 'A {quality} one'}\n",
            r"instructions.example: placeholder \{text\} is missing",
        ),
        (
            SMALL + "instructions: {example: '{text} of {label}'}\n",
            r"instructions.example: unknown placeholder \{label\}",
        ),
        (SMALL + "max_tokens: 0\n", "max_tokens: "),
        ("- just\n- a list\n", "not a mapping"),
        ("name: [unclosed\n", "is not YAML"),
    ],
)
def test_a_wrong_task_file_is_refused_with_file_and_field(task, text, said):
    with pytest.raises(ConfigError, match=said) as error:
        task(text)
    assert "mine.yaml" in str(error.value)


def test_an_unknown_name_lists_the_tasks_that_ship():
    with pytest.raises(
        ConfigError,
        match=r"task: there is no task 'imbd'. Did you mean 'imdb'\? .*banking10_as_printed, dbpedia14, ",
    ):
        load_task("imbd")
