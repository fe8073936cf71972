"""Faults on purpose come at the promised shares, look like a vendor's, and lose no answer."""

import pickle
import time
from dataclasses import replace

import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError, FinalError, TemporaryError
from connectors.interfaces.models import ModelSpec
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.faulty import GARBAGE, REFUSAL, FaultyModel
from connectors.models.base.registry import open_model
from tests.support.contracts.connectors import LanguageModelContract

INNER = {"connector": "ngram", "model": "stories"}


def faulty(**options) -> FaultyModel:
    return FaultyModel.from_spec(ModelSpec("shaky", "faulty", "", {"inner": INNER, **options}))


def prompts(count: int):
    return LanguageModelContract().prompts(count)


class TestFaultyModel(LanguageModelContract):
    @pytest.fixture(scope="class")
    def model(self):
        return faulty(rate_limit=0.2, server_error=0.1, timeouts=0.1, retries=60, slow=0.1, seconds=0.001)


def test_without_faults_the_answers_are_those_of_the_inner_model():
    inner = open_model(ModelSpec("x", **INNER))
    assert faulty().complete(prompts(4)) == inner.complete(prompts(4))


def test_each_kind_of_spoilt_answer_comes_at_its_share():
    answers = faulty(refuse=0.2, garbage=0.2, empty=0.2).complete(prompts(300))
    refused = [a for a in answers if a.finish_reason == "refused"]
    assert all(a.text == REFUSAL for a in refused)
    for count in (len(refused), sum(a.text == GARBAGE for a in answers), sum(a.text == "" for a in answers)):
        assert 30 <= count <= 90


def test_temporary_faults_end_a_prompt_only_when_every_try_failed():
    few = faulty(rate_limit=0.3, server_error=0.2, retries=0).complete(prompts(200))
    failed = [a for a in few if a.finish_reason == "error"]
    assert 60 <= len(failed) <= 140
    assert {a.error[:3] for a in failed} == {"429", "500"}
    assert all(a.finish_reason != "error" for a in faulty(rate_limit=0.3, retries=40).complete(prompts(200)))


def test_a_prompt_that_failed_has_a_fresh_chance_when_asked_again(tmp_path):
    model = Recording(faulty(timeouts=0.5, retries=0), CompletionStore(tmp_path))
    wanted = prompts(40)
    for _ in range(40):
        answers = model.complete(wanted)
        if all(a.finish_reason != "error" for a in answers):
            break
    assert [a.text for a in answers] == [a.text for a in faulty().complete(wanted)]


def test_the_same_seed_hits_the_same_prompts_in_any_order_and_another_seed_others():
    def hit(model, order):
        return {p.key for p, a in zip(order, model.complete(order), strict=True) if a.finish_reason == "refused"}

    wanted = prompts(60)
    first = hit(faulty(refuse=0.5), wanted)
    assert first == hit(faulty(refuse=0.5), wanted[::-1])
    assert first != hit(faulty(refuse=0.5, seed=1), wanted)


def test_after_the_last_allowed_answer_the_model_is_gone_for_good_and_nothing_given_is_lost():
    model = faulty(final_after=7)
    kept = {}
    for _ in range(2):
        with pytest.raises(FinalError, match="after 7 calls"):
            model.complete(prompts(10), kept.__setitem__)
    assert sorted(kept) == list(range(7))


def test_an_outage_passes():
    model = faulty(outage_after=3, outage_calls=2, seconds=2.5)
    kept = {}
    for _ in range(2):
        with pytest.raises(TemporaryError) as caught:
            model.complete(prompts(5), kept.__setitem__)
    assert caught.value.retry_after == 2.5
    assert sorted(kept) == [0, 1, 2]
    assert [a.text for a in model.complete(prompts(5))] == [a.text for a in faulty().complete(prompts(5))]


def test_slow_answers_take_their_time():
    started = time.monotonic()
    faulty(slow=1.0, seconds=0.05).complete(prompts(4))
    assert time.monotonic() - started >= 0.2


def test_an_inner_model_that_draws_without_replacement_is_told_what_was_drawn(tmp_path):
    rows = pd.DataFrame({"text": [f"text {i}" for i in range(8)], "label": ["positive", "negative"] * 4})
    rows.to_parquet(tmp_path / "rows.parquet")
    inner = {"connector": "recorded", "model": str(tmp_path / "rows.parquet")}
    spec = ModelSpec("shaky", "faulty", "", {"inner": inner})
    asked = prompts(8)
    whole = FaultyModel.from_spec(spec).complete(asked)
    again = FaultyModel.from_spec(spec)
    for prompt, answer in zip(asked[:5], whole[:5], strict=True):
        again.remember(prompt, answer)
    assert again.complete(asked[5:]) == whole[5:]
    assert not hasattr(faulty(), "remember")


def test_identity_tells_the_inner_model_and_the_faults_apart():
    other = FaultyModel.from_spec(ModelSpec("s", "faulty", "", {"inner": {**INNER, "model": "letters"}}))
    assert len({faulty().identity, faulty(refuse=0.1).identity, other.identity}) == 3
    assert pickle.loads(pickle.dumps(faulty(refuse=0.1))).identity == faulty(refuse=0.1).identity


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate_limits": 0.1}, "Did you mean 'rate_limit'"),
        ({"refuse": 0.7, "empty": 0.7}, "add up to at most 1"),
        ({"refuse": -0.1}, "shares from 0 to 1"),
        ({"retries": 1.5}, "retries must be"),
        ({"inner": {}}, "inner must be"),
        ({"inner": {"connector": "ngramm"}}, "Did you mean 'ngram'"),
    ],
)
def test_wrong_options_say_what_to_write(options, message):
    with pytest.raises(ConfigError, match=message):
        faulty(**options)


def test_it_is_found_by_its_name_in_a_configuration():
    spec = ModelSpec("shaky", "faulty", "", {"inner": INNER, "refuse": 1.0})
    (answer,) = open_model(spec).complete(prompts(1))
    assert replace(answer, tokens_in=0, tokens_out=0).finish_reason == "refused"
