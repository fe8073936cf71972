import pickle
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import connectors
from connectors.interfaces.errors import ConfigError, InputError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.ngram.model import NgramModel
from connectors.models.ngram.tokens import tokenise

CORPORA = ("helpdesk", "letters", "stories")
DEMO = Path(connectors.__file__).parent / "data" / "support_desk" / "test.parquet"
BANK = "a question that a customer asks a bank"


def open_model(corpus="helpdesk", **options):
    return NgramModel.from_spec(ModelSpec("embedded", "ngram", options={"corpus": corpus, **options}))


@pytest.fixture(scope="module")
def models():
    return {corpus: open_model(corpus) for corpus in CORPORA}


def write(model, label, count=200, first=0, **more):
    asked = [Prompt("Write.", label, seed=first + number, **more) for number in range(count)]
    return [answer.text for answer in model.complete(asked)]


def demo_texts(label, count):
    table = pd.read_parquet(DEMO)
    return tuple(table.text[table.label == label][:count])


def similarity(texts, examples):
    """Mean cosine of hashed content words between each text and each example, one value per text."""
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(stop_words="english", alternate_sign=False)
    return np.asarray((vectorizer.transform(texts) @ vectorizer.transform(examples).T).mean(axis=1)).ravel()


def standard_errors_apart(high, low):
    return (np.mean(high) - np.mean(low)) / np.sqrt(np.var(high) / len(high) + np.var(low) / len(low))


def test_training_all_three_takes_less_than_three_seconds():
    began = time.process_time()
    for corpus in CORPORA:
        open_model(corpus)
    assert time.process_time() - began < 3


@pytest.mark.parametrize("corpus", CORPORA)
def test_writing_makes_at_least_1500_words_a_second(models, corpus):
    good = demo_texts("slow_internet", 4)
    began = time.process_time()
    texts = write(models[corpus], "slow_internet", good=good, bad=demo_texts("hardware_fault", 4))
    assert sum(len(text.split()) for text in texts) / (time.process_time() - began) > 1500


def test_the_same_prompt_gets_the_same_answer_whatever_else_is_in_the_batch(models):
    asked = [Prompt("Write.", label, seed=seed) for label in ("login_problem", "age_limit") for seed in range(10)]
    together = models["helpdesk"].complete(asked)
    fresh = open_model("helpdesk")
    assert [fresh.complete([prompt])[0] for prompt in reversed(asked)] == together[::-1]
    assert pickle.loads(pickle.dumps(fresh)).complete(asked) == together


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("label", ["slow_internet", "billing_question", "cancel_transfer", "positive"])
def test_two_hundred_texts_of_a_label_are_nearly_all_distinct(models, corpus, label):
    assert len(set(write(models[corpus], label))) > 190


@pytest.mark.parametrize("corpus", CORPORA)
def test_texts_are_tidy_and_as_long_as_those_of_the_corpus(models, corpus):
    texts = write(models[corpus], "login_problem")
    shipped = pd.read_parquet(DEMO.parents[1] / "corpora" / f"{corpus}.parquet").text
    assert 0.6 < np.mean([len(text.split()) for text in texts]) / shipped.str.split().str.len().mean() < 1.6
    assert all(text == text.strip() and "<s>" not in text and "</s>" not in text and "  " not in text for text in texts)
    assert np.mean([text[0].isupper() or not text[0].isalpha() for text in texts]) == 1.0


def test_a_trained_label_is_recognised_by_a_classifier_of_the_corpus(models):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    corpus = pd.read_parquet(DEMO.parents[1] / "corpora" / "helpdesk.parquet")
    judge = make_pipeline(TfidfVectorizer(), LogisticRegression(C=4)).fit(corpus.text, corpus.label)
    for label in models["helpdesk"].labels:
        assert np.mean(judge.predict(write(models["helpdesk"], label, 60)) == label) > 0.75


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("label", ["cancel_transfer", "age_limit", "activate_my_card"])
def test_texts_of_a_label_never_seen_hold_its_words(models, corpus, label):
    words = set(label.split("_")) - {"my"}
    texts = write(models[corpus], label, description=BANK)
    assert np.mean([bool(words & {token.lower() for token in tokenise(text)}) for text in texts]) > 0.6


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize(("one", "other"), [("cancel_transfer", "age_limit"), ("positive", "negative")])
def test_texts_of_two_labels_can_be_told_apart(models, corpus, one, other):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = write(models[corpus], one, 240) + write(models[corpus], other, 240)
    labels = np.repeat([0, 1], 240)
    order = np.random.default_rng(0).permutation(480)
    train, test = order[:300], order[300:]
    judge = make_pipeline(TfidfVectorizer(), LogisticRegression(C=4)).fit([texts[i] for i in train], labels[train])
    assert judge.score([texts[i] for i in test], labels[test]) > 0.75


def test_description_and_attribute_change_the_topic(models):
    letters = models["letters"]
    film = {"film", "movie", "plot", "script", "actor", "ending", "thriller", "comedy", "drama"}

    def share(texts):
        return np.mean([bool(film & {token.lower() for token in tokenise(text)}) for text in texts])

    film_texts = write(letters, "opinion_a", description="a film review about plot and script")
    bank_texts = write(letters, "opinion_a", description="a letter about a bank transfer")
    assert share(film_texts) > share(bank_texts) + 0.3
    assert write(letters, "opinion_a", 20, attribute="hotel") != write(letters, "opinion_a", 20, attribute="restaurant")


@pytest.mark.statistical
@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("label", ["slow_internet", "age_limit"])
def test_good_examples_draw_the_texts_towards_them(models, corpus, label):
    good = demo_texts("slow_internet", 4)
    with_good, without = write(models[corpus], label, good=good), write(models[corpus], label)
    assert standard_errors_apart(similarity(with_good, good), similarity(without, good)) > 5


@pytest.mark.statistical
@pytest.mark.parametrize("label", ["slow_internet", "billing_question"])
def test_bad_examples_push_the_texts_away_from_them(models, label):
    bad = tuple(write(models["helpdesk"], label, 4, first=10_000))
    with_bad, without = write(models["helpdesk"], label, 400, bad=bad), write(models["helpdesk"], label, 400)
    assert standard_errors_apart(similarity(without, bad), similarity(with_bad, bad)) > 5


@pytest.mark.statistical
def test_a_contrastive_prompt_prefers_the_good_to_the_bad_side(models):
    good, bad = demo_texts("slow_internet", 4), demo_texts("hardware_fault", 4)
    for model in models.values():
        there, back = (write(model, "question", 80, good=a, bad=b) for a, b in ((good, bad), (bad, good)))
        lead = similarity(there, good) - similarity(there, bad)
        assert standard_errors_apart(lead, similarity(back, good) - similarity(back, bad)) > 5


def test_cache_and_discount_of_zero_turn_the_examples_off():
    plain = open_model("helpdesk", cache=0, discount=0)
    good, bad = demo_texts("slow_internet", 3), demo_texts("hardware_fault", 3)
    off = similarity(write(plain, "slow_internet", good=good, bad=bad), good)
    on = similarity(write(open_model("helpdesk"), "slow_internet", good=good, bad=bad), good)
    assert np.mean(on) > 2 * np.mean(off)


@pytest.mark.parametrize("corpus", CORPORA)
def test_no_run_of_eight_words_is_copied_from_a_good_example(corpus):
    greedy = open_model(corpus, cache=0.9, temperature=0.4)
    good = demo_texts("billing_question", 2)
    runs = {run for text in good for run in runs_of(text)}
    for text in write(greedy, "billing_question", 60, good=good):
        assert not runs & runs_of(text)


def runs_of(text, length=8):
    tokens = [token.lower() for token in tokenise(text)]
    return {tuple(tokens[place : place + length]) for place in range(len(tokens) - length + 1)}


def test_the_token_limit_is_kept_and_told(models):
    (short,) = models["helpdesk"].complete([Prompt("Write one.", "slow_internet", max_tokens=4)])
    (free,) = models["helpdesk"].complete([Prompt("Write one.", "slow_internet")])
    assert len(tokenise(short.text)) <= 4
    assert short.finish_reason == "length"
    assert (free.finish_reason, free.tokens_in, free.tokens_out) == ("stop", 2, len(free.text.split()))
    assert free.dollars == 0.0


def test_each_answer_is_handed_to_keep_before_the_next_is_written(models):
    kept = []
    asked = [Prompt("Write.", "slow_internet", seed=seed) for seed in range(3)]

    def stop_after_two(position, answer):
        kept.append((position, answer))
        if position == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        models["helpdesk"].complete(asked, stop_after_two)
    assert kept == list(enumerate(models["helpdesk"].complete(asked[:2])))


def test_identity_changes_with_corpus_and_every_option(tmp_path):
    variants = [{"order": 3}, {"temperature": 1.1}, {"cache": 0.1}, {"discount": 2}, {"label_weight": 0.5}]
    path, copy = tmp_path / "own.txt", tmp_path / "copy.txt"
    path.write_text("One line of text.\nAnother one.")
    copy.write_text("One line of text.\nAnother one.")
    identities = {open_model(str(path), **variant).identity for variant in [{}, *variants]}
    assert open_model(str(copy)).identity in identities
    path.write_text("One line of text.\nAnother two.")
    identities.add(open_model(str(path)).identity)
    assert len(identities) == 7


def test_own_corpora_may_be_text_or_parquet_with_labels(tmp_path):
    path = tmp_path / "own.parquet"
    pd.DataFrame(
        {"text": ["Red apples are sweet.", "Grey rain fell all day."] * 5, "label": ["Fruit Talk", "weather"] * 5}
    ).to_parquet(path)
    model = open_model(str(path), label_weight=1.0)
    assert model.labels == ("fruit_talk", "weather")
    words = {token.lower() for text in write(model, "fruit talk", 20) for token in tokenise(text)}
    assert words == {"red", "apples", "are", "sweet", "."}


def test_the_corpus_may_stand_in_the_field_model():
    named = NgramModel.from_spec(ModelSpec("a", "ngram", model="letters"))
    assert named.identity == open_model("letters").identity
    assert named.name == "a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temprature": 1}, r"'embedded'.*'temprature'.*'temperature'"),
        ({"cache": 1}, "cache must be a number from 0.0 to 0.99"),
        ({"temperature": "hot"}, "temperature must be a number"),
        ({"order": 2.5}, "order must be a whole number"),
    ],
)
def test_wrong_options_are_refused_by_name(options, message):
    with pytest.raises(ConfigError, match=message):
        open_model(**options)


def test_wrong_corpora_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match="'novels' is neither one of helpdesk, letters, stories nor a file"):
        open_model("novels")
    (tmp_path / "empty.txt").write_text(" \n\n")
    with pytest.raises(InputError, match=r"empty\.txt contains no text"):
        open_model(str(tmp_path / "empty.txt"))
    (tmp_path / "broken.parquet").write_bytes(b"?")
    with pytest.raises(InputError, match=r"broken\.parquet cannot be read"):
        open_model(str(tmp_path / "broken.parquet"))
    pd.DataFrame({"words": ["a"]}).to_parquet(tmp_path / "words.parquet")
    with pytest.raises(InputError, match=r"words\.parquet has no column 'text'; it has words"):
        open_model(str(tmp_path / "words.parquet"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match=r"latin\.txt cannot be read as UTF-8"):
        open_model(str(tmp_path / "latin.txt"))


@pytest.mark.parametrize("label", ["", "1.0", "Beauty & Spas", "the", "ÄÖ_ß", "???"])
def test_odd_labels_and_examples_do_not_stop_it(models, label):
    answers = models["stories"].complete(
        [Prompt("", label, good=("", "x", "!!!"), bad=("\n", "…"), seed=seed) for seed in range(20)]
    )
    assert all(answer.text and answer.finish_reason in ("stop", "length") for answer in answers)


def test_a_corpus_that_may_not_be_read_is_an_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mine.txt").write_text("the parcel is late\n")
    model = NgramModel.from_spec(ModelSpec("m", "ngram", str(tmp_path / "mine.txt")))
    assert model.identity

    def denied(_: Path) -> str:
        raise PermissionError("no permission")  # a file's mode does not stop the superuser, who may run this

    monkeypatch.setattr("connectors.models.ngram.model.HASHES.sha256", denied)
    with pytest.raises(InputError, match=r"mine\.txt cannot be read \(no permission\)"):
        NgramModel.from_spec(ModelSpec("m", "ngram", str(tmp_path / "mine.txt")))
