import pickle

import pytest

from connectors.interfaces.errors import ConfigError, FinalError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import Purse
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.batches import BatchModel
from connectors.models.vendors.openai import OpenAIModel
from tests.support.contracts.connectors import LanguageModelContract
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_batches import BatchBook
from tests.support.servers.vendor_messages import Reply, failure

VENDORS = {"openai": (OpenAIModel, "/v1"), "anthropic": (AnthropicModel, "")}


def asked(count):
    return [Prompt(f"Prompt number {i}.", "a", seed=i) for i in range(count)]


@pytest.fixture(params=VENDORS)
def vendor(request):
    return request.param


@pytest.fixture
def book():
    return BatchBook()


@pytest.fixture
def server(book):
    with VendorServer(plan=book) as server:
        book.url = lambda: server.url
        yield server


@pytest.fixture
def open_model(vendor, server, tmp_path):
    def opened(**more):
        connector, suffix = VENDORS[vendor]
        pace = {"first_wait": 0.01, "longest_wait": 0.02}
        options = {"endpoint": server.url + suffix, "key": "none", "tries": 4, "pace": pace, **more}
        inner = connector.from_spec(ModelSpec("writer", vendor, "m", options))
        return BatchModel(inner, tmp_path / "batches", poll=0.01)

    return opened


class TestContract(LanguageModelContract):
    @pytest.fixture
    def model(self, open_model):
        return open_model()


def test_one_batch_answers_all_and_costs_half(open_model, book, tmp_path):
    seen = []
    model = open_model(price={"input": 2.0, "output": 10.0})
    model.watch = seen.append
    kept = []
    answers = model.complete(asked(5), lambda i, c: kept.append((i, c)))
    assert book.submitted == 1
    assert [answer.finish_reason for answer in answers] == ["stop"] * 5
    assert len({answer.text for answer in answers}) == 5
    assert sorted(kept) == list(enumerate(answers))
    assert sum(answer.dollars for answer in answers) == pytest.approx(5 * (11 * 2 + 7 * 10) / 1e6 / 2)
    assert [progress.ended for progress in seen] == [False, False, True]
    assert list((tmp_path / "batches").iterdir()) == []


def test_a_batch_without_usage_is_charged_by_bytes_at_the_price_of_batches(open_model, book, tmp_path):
    book.usage = False
    price = {"input": 100.0, "output": 300.0}
    model, purse = open_model(price=price, max_tokens=20), Purse(tmp_path / "money.jsonl", most=50.0)
    answers = Recording(model, CompletionStore(tmp_path / "answers"), purse=purse).complete(asked(6))
    assert all(answer.estimated for answer in answers)
    bill = sum(read * price["input"] + written * price["output"] for read, written in book.billed) / 1e6 / 2
    assert len(book.billed) == 6
    assert bill <= purse.spent == purse.estimated
    assert purse.spent <= 6 * model.worst_dollars(asked(1)[0])


def test_a_cap_that_covers_the_worst_case_of_one_try_needs_one_batch(open_model, book, tmp_path):
    model = open_model(price={"input": 100.0, "output": 300.0}, max_tokens=20)
    purse = Purse(tmp_path / "money.jsonl", most=60.5 * model.worst_dollars(Prompt("Prompt number 59.", "a")))
    Recording(model, CompletionStore(tmp_path / "answers"), purse=purse).complete(asked(60))
    assert book.submitted == 1
    assert purse.spent == pytest.approx(60 * (11 * 100 + 7 * 300) / 1e6 / 2)


def test_the_price_of_batches_can_be_set(open_model, book):
    (answer,) = open_model(price={"input": 2.0, "output": 10.0, "batch": 0.25}).complete(asked(1))
    assert answer.dollars == pytest.approx((11 * 2 + 7 * 10) / 1e6 / 4)


def test_the_texts_are_those_of_single_calls_and_the_store_serves_both(open_model, book, tmp_path):
    store = CompletionStore(tmp_path / "completions")
    answers = Recording(open_model(), store).complete(asked(4))
    assert Recording(open_model().inner, store).complete(asked(4)) == answers
    assert book.submitted == 1


class Death(BaseException):
    pass


def dies_at(step):
    def watch(progress):
        step.append(progress)
        raise Death

    return watch


def test_a_run_that_dies_while_it_waits_takes_the_same_batch_up(open_model, book):
    model = open_model()
    model.watch = dies_at([])
    with pytest.raises(Death):
        model.complete(asked(5))
    answers = open_model().complete(asked(5))
    assert [answer.finish_reason for answer in answers] == ["stop"] * 5
    assert book.submitted == 1


def test_a_run_that_dies_while_it_keeps_asks_only_for_the_rest_and_hands_nothing_in_again(open_model, book, tmp_path):
    store = CompletionStore(tmp_path / "completions")
    kept = []

    def keep(position, completion):
        kept.append(position)
        if len(kept) == 3:
            raise Death

    with pytest.raises(Death):
        Recording(open_model(), store).complete(asked(5), keep)
    answers = Recording(open_model(), store).complete(asked(7))
    assert [answer.finish_reason for answer in answers] == ["stop"] * 7
    assert [len(batch["asked"]) for batch in book.batches.values()] == [5, 2]


def test_a_submission_whose_answer_was_lost_is_found_again(open_model, book):
    book.forget_submission = True
    answers = open_model().complete(asked(3))
    assert [answer.finish_reason for answer in answers] == ["stop"] * 3
    assert book.submitted == 1


def test_a_death_between_submission_and_journal_is_found_again(open_model, book, monkeypatch):
    model = open_model()
    submit = type(model.side).submit

    async def dies(self, *args):
        await submit(self, *args)
        raise Death

    with monkeypatch.context() as patch:
        patch.setattr(type(model.side), "submit", dies)
        with pytest.raises(Death):
            model.complete(asked(3))
    assert [answer.finish_reason for answer in open_model().complete(asked(3))] == ["stop"] * 3
    assert book.submitted == 1


def test_the_batch_of_somebody_else_is_not_taken_for_ours(open_model, book, tmp_path, monkeypatch):
    other = open_model()
    other.folder = tmp_path / "elsewhere"
    other.complete([Prompt(f"Other {i}.", "a") for i in range(3)])
    model = open_model()

    async def never(*_):
        raise Death

    with monkeypatch.context() as patch:
        patch.setattr(type(model.side), "submit", never)
        with pytest.raises(Death):
            model.complete(asked(3))
    assert [answer.finish_reason for answer in open_model().complete(asked(3))] == ["stop"] * 3
    assert book.submitted == 2


def test_what_failed_inside_a_batch_fails_alone_and_is_handed_in_again_when_asked_again(open_model, book):
    prompts = asked(5)
    book.bad[prompts[1].text] = failure(400, "prompt is too long", "invalid_request_error")
    book.bad[prompts[2].text] = None
    answers = open_model().complete(prompts)
    assert [answer.finish_reason for answer in answers] == ["stop", "error", "error", "stop", "stop"]
    book.bad.clear()
    again = open_model().complete(prompts[1:3])
    assert [answer.finish_reason for answer in again] == ["stop"] * 2
    assert [len(batch["asked"]) for batch in book.batches.values()] == [5, 2]


def test_faults_on_the_way_are_waited_for(open_model, server, book):
    server.script.extend([failure(500), Reply(drop=True)])
    answers = open_model().complete(asked(2))
    assert [answer.finish_reason for answer in answers] == ["stop"] * 2
    assert book.submitted == 1


def test_a_bad_key_ends_it(open_model, server, book):
    server.script.append(failure(401))
    with pytest.raises(FinalError, match="key"):
        open_model().complete(asked(2))
    assert book.submitted == 0


def test_batches_take_one_endpoint(open_model):
    with pytest.raises(ConfigError, match="one endpoint"):
        open_model(several=2)


def test_a_batch_model_can_be_pickled(open_model):
    model = open_model()
    assert pickle.loads(pickle.dumps(model)).identity == model.identity


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_a_full_queue_is_waited_for_in_smaller_batches(open_model, book, caplog):
    book.room = 3
    answers = open_model().complete(asked(10))
    assert [answer.finish_reason for answer in answers] == ["stop"] * 10
    done = [batch for batch in book.batches.values() if not batch["failed"]]
    assert sum(len(batch["asked"]) for batch in done) == 10, "no prompt is asked twice"
    assert max(len(batch["asked"]) for batch in done) == 3
    assert len([record for record in caplog.records if "room in the queue" in record.getMessage()]) >= 1
