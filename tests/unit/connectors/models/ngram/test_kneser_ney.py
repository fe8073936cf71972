from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from nltk.lm import KneserNeyInterpolated
from nltk.util import everygrams

import connectors
from connectors.interfaces.errors import ConfigError
from connectors.models.ngram.kneser_ney import END, START, KneserNey, draw
from connectors.models.ngram.tokens import Truecaser, detokenise, tokenise

CORPORA = Path(connectors.__file__).parent / "data" / "corpora"
LINES = """the cat sat on the mat . the dog sat on the log .
a cat and a dog met on the road .
the dog saw the cat on the mat and ran .
on the road the old dog met a young cat .
why did the cat run ?
the cat ran on , and on , and on .
my dog is old and my cat is young .
a log lay on the road .
the cat sat on the log and saw the dog .
an old mat lay on the old road .""".splitlines()
TEXTS = [line.split() for line in LINES]


def padded(text, order):
    return [START] * (order - 1) + text + [END]


def oracle(order, discount):
    model = KneserNeyInterpolated(order, discount=discount)
    grams = [[gram for gram in everygrams(padded(text, order), max_len=order) if gram[-1] != START] for text in TEXTS]
    model.fit(grams, vocabulary_text=[word for text in TEXTS for word in padded(text, order)])
    return model


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("discount", [0.1, 0.75])
def test_probabilities_equal_those_of_nltk(order, discount):
    ours, theirs = KneserNey(TEXTS, order, discount), oracle(order, discount)
    contexts = {tuple(gram[:-1]) for text in TEXTS for gram in everygrams(padded(text, order), 1, order)}
    contexts |= {("dog", "sat", "young"), ("why", "the"), ("road",)}
    for context in sorted(contexts)[::3]:
        context = context[-(order - 1) :]
        for word in ("the", "cat", "on", "young", "?", END):
            assert ours.probability(word, context) == pytest.approx(theirs.score(word, context), abs=1e-9)


@pytest.mark.parametrize("discount", [0.4, None])
@pytest.mark.parametrize(
    "context", [(), (START,) * 3, ("the",), ("on", "the", "old"), ("never", "seen"), ("cat", "never")]
)
def test_the_probabilities_of_all_words_sum_to_one(discount, context):
    model = KneserNey(TEXTS, 4, discount)
    assert sum(model.probability(word, context) for word in model.vocabulary) == pytest.approx(1.0, abs=1e-12)


def test_held_out_perplexity_is_far_below_that_of_unigrams():
    corpus = pd.read_parquet(CORPORA / "helpdesk.parquet").text.sample(500, random_state=0)
    texts = [tokenise(text) for text in corpus]
    train, held_out = texts[:440], texts[440:]
    model = KneserNey(train, 4)
    words = Counter(word for text in train for word in [*text, END])
    known = [word for text in held_out for word in [*text, END] if word in model.index]
    unigram = np.exp(-np.mean([np.log(words[word] / words.total()) for word in known]))
    assert model.perplexity(held_out) < 0.2 * unigram


def test_a_weight_of_two_counts_a_text_as_if_it_stood_there_twice():
    words = sorted({word for text in TEXTS for word in text})
    weighted = KneserNey(TEXTS, 3, weights=[2] + [1] * 9)
    doubled = KneserNey([TEXTS[0], *TEXTS], 3)
    for context in (("the", "cat"), ("on", "the"), ("sat", "on")):
        assert [weighted.probability(word, context) for word in words] == pytest.approx(
            [doubled.probability(word, context) for word in words]
        )
    assert weighted.probability("mat", ("on", "the")) > KneserNey(TEXTS, 3).probability("mat", ("on", "the"))


def test_modified_discounts_take_less_from_rare_words_than_from_frequent_ones():
    rng = np.random.default_rng(0)
    texts = [[f"w{min(int(rng.zipf(1.6)), 40)}" for _ in range(12)] for _ in range(300)]
    single, modified = KneserNey(texts, 2, 0.75), KneserNey(texts, 2, None)
    once = next(
        word
        for word in modified.vocabulary
        if sum(pair == ("w1", word) for text in texts for pair in pairwise(text)) == 1
    )
    assert modified.probability(once, ("w1",)) != pytest.approx(single.probability(once, ("w1",)), rel=1e-3)
    assert modified.perplexity(texts[:50]) < KneserNey(texts, 2, 0.95).perplexity(texts[:50])


def test_samples_follow_the_probabilities_of_the_model():
    model = KneserNey(TEXTS, 3)
    rng = np.random.default_rng(5)
    firsts = [(model.sample(rng, 1) or [END])[0] for _ in range(4000)]
    for word in ("the", "a", "on"):
        expected = model.probability(word, (START, START))
        assert abs(firsts.count(word) / 4000 - expected) < 5 * np.sqrt(expected / 4000)


def test_sampling_depends_on_the_seed_alone_and_keeps_to_the_limit():
    model = KneserNey(TEXTS)
    first, again, other = (model.sample(np.random.default_rng(seed), 7) for seed in (3, 3, 4))
    assert first == again != other
    assert max(len(model.sample(np.random.default_rng(seed), 7)) for seed in range(50)) == 7


def test_a_word_without_mass_is_never_drawn():
    rng = np.random.default_rng(0)
    masses = np.array([0.0, 1e-300, 0.0, 3.0, 0.0])
    assert {draw(masses, rng) for _ in range(500)} == {3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(([], 3), "empty"), ((TEXTS, 1), "order 2"), ((TEXTS, 3, 1.5), "between 0 and 1")],
)
def test_wrong_arguments_are_refused_with_the_reason(arguments, message):
    with pytest.raises(ConfigError, match=message):
        KneserNey(*arguments)


@pytest.mark.parametrize(
    "text",
    [
        "I can't log in (again), why?",
        'She said "no way" and left. Then it rained!',
        "It cost £42.17, i.e. 50% more than on 3/4 at 10:30.",
        "Write to k.lind@mail.example; ask for #1234/5.",
        "Wait... what?! No: a well-known end.",
    ],
)
def test_a_tidy_text_survives_tokenising_and_joining(text):
    assert detokenise(tokenise(text)) == text


def test_sentence_capitals_are_taken_away_and_names_are_kept():
    corpus = [
        tokenise(text) for text in ("The train to Oslo left. We saw the train.", "He met Anna in Oslo. I ran, I hid.")
    ]
    case = Truecaser(corpus)
    tokens = case.lower_starts(tokenise("Oslo is far. The end. I know. USB fails."))
    assert tokens == ["Oslo", "is", "far", ".", "the", "end", ".", "I", "know", ".", "USB", "fails", "."]
    assert detokenise(tokens) == "Oslo is far. The end. I know. USB fails."
