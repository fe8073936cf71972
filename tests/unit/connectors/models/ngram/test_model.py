import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import connectors
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Cloze, Prompt, Seeded
from connectors.models.ngram.counts import tokenise
from connectors.models.ngram.model import NgramModel
from wasp.testing import LanguageModelContract

CORPORA = ("helpdesk", "letters", "stories")
DEMO = Path(connectors.__file__).parent / "data" / "support_desk" / "test.parquet"
BANK = "a question that a customer asks a bank"


def open_model(corpus="helpdesk"):
    return NgramModel.from_spec(ModelSpec("embedded", "ngram", corpus))


@pytest.fixture(scope="module")
def models():
    return {corpus: open_model(corpus) for corpus in CORPORA}


def write(model, label, count=200, first=0, **more):
    asked = [Prompt("Write.", label, seed=first + number, **more) for number in range(count)]
    return [answer.text for answer in model.complete(asked)]


class TestContract(LanguageModelContract):
    labels = ("slow_internet", "a_label_that_no_corpus_has")

    @pytest.fixture
    def model(self, models):
        return models["helpdesk"]


def test_the_same_prompt_gets_the_same_answer_whatever_else_is_in_the_batch(models):
    asked = [
        Prompt("Write.", label, seed=seed)
        for label in ("login_problem", "age_limit")
        for seed in range(10)
    ]
    together = models["helpdesk"].complete(asked)
    fresh = open_model("helpdesk")
    assert [fresh.complete([prompt])[0] for prompt in reversed(asked)] == together[::-1]
    assert pickle.loads(pickle.dumps(fresh)).complete(asked) == together


@pytest.mark.parametrize("corpus", CORPORA)
def test_texts_are_distinct_tidy_and_as_long_as_those_of_the_corpus(models, corpus):
    labels = ("login_problem", "slow_internet", "billing_question", "cancel_transfer", "positive")
    texts, *others = (write(models[corpus], label) for label in labels)
    assert min(len(set(each)) for each in (texts, *others)) > 190
    shipped = pd.read_parquet(DEMO.parents[1] / "corpora" / f"{corpus}.parquet").text
    assert (
        0.6
        < np.mean([len(text.split()) for text in texts]) / shipped.str.split().str.len().mean()
        < 1.6
    )
    assert all(
        text == text.strip() and "<s>" not in text and "</s>" not in text and "  " not in text
        for text in texts
    )
    assert np.mean([text[0].isupper() or not text[0].isalpha() for text in texts]) == 1.0


def test_a_trained_label_is_recognised_by_a_classifier_of_the_corpus(models):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    corpus = pd.read_parquet(DEMO.parents[1] / "corpora" / "helpdesk.parquet")
    judge = make_pipeline(TfidfVectorizer(), LogisticRegression(C=4)).fit(corpus.text, corpus.label)
    for label in sorted(set(corpus.label)):
        assert np.mean(judge.predict(write(models["helpdesk"], label, 60)) == label) > 0.75


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("label", ["cancel_transfer", "age_limit", "activate_my_card"])
def test_texts_of_a_label_never_seen_hold_its_words(models, corpus, label):
    words = set(label.split("_")) - {"my"}
    texts = write(models[corpus], label, description=BANK)
    assert (
        np.mean([bool(words & {token.lower() for token in tokenise(text)}) for text in texts]) > 0.6
    )


def test_words_of_good_examples_and_of_the_attribute_enter_the_texts(models):
    assert "zorvex" in " ".join(
        write(models["letters"], "age_limit", 40, good=("The zorvex is late.",))
    )
    hotel, restaurant = (
        write(models["letters"], "opinion_a", 20, attribute=word)
        for word in ("hotel", "restaurant")
    )
    assert hotel != restaurant


def test_the_token_limit_is_kept_and_reported(models):
    (short,) = models["helpdesk"].complete([Prompt("Write one.", "slow_internet", max_tokens=4)])
    (free,) = models["helpdesk"].complete([Prompt("Write one.", "slow_internet")])
    assert len(tokenise(short.text)) <= 4
    assert short.finish_reason == "length"
    assert (free.finish_reason, free.tokens_in, free.tokens_out) == (
        "stop",
        2,
        len(free.text.split()),
    )
    assert free.dollars == 0.0


@pytest.mark.parametrize("label", ["", "1.0", "Beauty & Spas", "the", "ÄÖ_ß", "???"])
def test_odd_labels_and_examples_do_not_stop_it(models, label):
    answers = models["stories"].complete(
        [Prompt("", label, good=("", "x", "!!!"), bad=("\n", "…"), seed=seed) for seed in range(20)]
    )
    assert all(answer.text and answer.finish_reason in ("stop", "length") for answer in answers)


def test_options_and_unknown_corpora_are_refused_by_name():
    with pytest.raises(
        ConfigError, match=r"'a': the ngram connector has no options \(order\)\. Remove"
    ):
        NgramModel.from_spec(ModelSpec("a", "ngram", options={"order": 3}))
    with pytest.raises(
        ConfigError, match="no corpus 'novels'. Set model to one of helpdesk, letters, stories"
    ):
        open_model("novels")


PHRASES = ("router", "light bulb", "Lisbon", "invoice", "parcel")
SOURCE = "I was charged twice for the same parcel, please send the money back."


def test_every_phrase_is_in_the_text_once_it_is_long_enough(models):
    asked = [Seeded("x", "", seed=seed, max_tokens=120, phrases=PHRASES) for seed in range(40)]
    texts = [
        answer.text.lower()
        for answer in models["helpdesk"].complete(asked)
        if answer.finish_reason == "stop"
    ]
    assert len(set(texts)) == len(texts) > 30
    assert all(phrase.lower() in text for text in texts for phrase in PHRASES)


def test_a_short_text_leaves_phrases_out_and_says_that_it_did_not_end(models):
    (answer,) = models["helpdesk"].complete([Seeded("x", "", max_tokens=12, phrases=PHRASES)])
    assert answer.finish_reason == "length"
    assert answer.tokens_out <= 12
    assert "router" in answer.text.lower()


def fill(model, mask, rounds=1, label=""):
    asked = [
        Cloze("x", label, seed=s, source=SOURCE, blanked="_", mask=mask, rounds=rounds)
        for s in range(60)
    ]
    return [answer.text for answer in model.complete(asked)]


def test_more_masks_and_more_rounds_leave_less_of_the_text(models):
    few, many, twice = (
        np.mean(
            [
                sum(a != b for a, b in zip(text.split(), SOURCE.split(), strict=False))
                for text in fill(*how)
            ]
        )
        for how in (
            (models["helpdesk"], 0.1),
            (models["helpdesk"], 0.6),
            (models["helpdesk"], 0.6, 4),
        )
    )
    assert few < many < twice
    assert few < 4
    assert len(set(fill(models["helpdesk"], 0.3))) > 50


def test_a_label_that_the_corpus_knows_leads_the_words_that_are_filled_in(models):
    words = {"charged", "invoice", "bill", "paid", "refund", "money", "payment", "charge"}
    slow, billing = (
        sum(
            len(words & set(text.lower().split()))
            for text in fill(models["helpdesk"], 0.9, 2, label)
        )
        for label in ("slow_internet", "billing_question")
    )
    assert slow < billing


def test_an_empty_text_is_no_answer(models):
    assert models["helpdesk"].complete([Cloze("x", "", source="", blanked="_")])[0].text == ""
