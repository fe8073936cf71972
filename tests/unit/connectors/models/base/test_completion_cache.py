import multiprocessing
import os
import pickle
import signal
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from connectors.interfaces.errors import ArtifactError, FinalError, TemporaryError
from connectors.interfaces.models import Completion, Keep, keep_nothing
from connectors.interfaces.prompts import Prompt
from connectors.models.base import completion_cache
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from wasp.testing import UNICODE, LanguageModelContract


def prompt(number: int, label: str = "a") -> Prompt:
    return Prompt(text=f"write {number}", label=label, good=("g",), seed=number)


@dataclass
class Counter:
    """A model that numbers its answers, so that a repeated answer differs; `fails`: prompts that fail once."""

    name: str = "counter"
    identity: str = "counter-1"
    asked: list[str] = field(default_factory=list)
    fails: dict[str, str] = field(default_factory=dict)
    stops_after: int = 10**9
    seconds: float = 0.0

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        answers = []
        for position, item in enumerate(prompts):
            if len(self.asked) >= self.stops_after:
                raise TemporaryError("the endpoint is gone")
            self.asked.append(item.text)
            time.sleep(self.seconds)
            reason = self.fails.pop(item.text, "stop")
            text = f"answer {len(self.asked)} to {item.text}" if reason == "stop" else ""
            answers.append(
                Completion(text, reason, 3, 5, 0.5, "broken" if reason == "error" else "")
            )
            keep(position, answers[-1])
        return answers


class Drawer(Counter):
    """Draws from a list without replacement, and so must receive what was drawn."""

    def __init__(self) -> None:
        super().__init__(name="drawer", identity="drawer-1")
        self.rows = [f"row {i}" for i in range(20)]
        self.told: list[tuple[str, str]] = []

    def remember(self, prompt: Prompt, completion: Completion) -> None:
        self.told.append((prompt.text, completion.text))
        self.rows.remove(completion.text)

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        answers = [Completion(self.rows.pop(0)) for _ in prompts]
        for position, answer in enumerate(answers):
            keep(position, answer)
        return answers


@pytest.fixture
def store(tmp_path) -> CompletionStore:
    return CompletionStore(tmp_path / "completions")


class TestContract(LanguageModelContract):
    @pytest.fixture
    def model(self, tmp_path):
        return Recording(Counter(), CompletionStore(tmp_path))


class TestRecording:
    def test_a_second_model_requests_nothing_that_the_first_requested(self, store):
        first = Recording(Counter(), store).complete([prompt(i) for i in range(5)])
        inner = Counter()
        second = Recording(inner, store)
        remaining = []
        answers = second.complete(
            [prompt(i) for i in range(7)], lambda i, c: remaining.append((i, c))
        )
        assert answers[:5] == first
        assert inner.asked == ["write 5", "write 6"]
        assert sorted(i for i, _ in remaining) == list(range(7))
        assert all(answers[i] == c for i, c in remaining)
        assert second.reused == 5

    def test_another_identity_is_another_model(self, store):
        Recording(Counter(), store).complete([prompt(0)])
        inner = Counter(identity="counter-2")
        Recording(inner, store).complete([prompt(0)])
        assert inner.asked == ["write 0"]
        assert [len(store.since(f"counter-{number}", 0)) for number in (1, 2, 3)] == [1, 1, 0]

    def test_equal_prompts_of_one_call_are_requested_once(self, store):
        inner = Counter()
        remaining = []
        answers = Recording(inner, store).complete(
            [prompt(1), prompt(0), prompt(1)], lambda i, c: remaining.append(i)
        )
        assert inner.asked == ["write 1", "write 0"]
        assert answers[0] == answers[2] != answers[1]
        assert sorted(remaining) == [0, 1, 2]

    def test_failures_are_requested_again_and_refusals_are_kept(self, store):
        inner = Counter(fails={"write 0": "error", "write 1": "refused", "write 2": "exhausted"})
        model = Recording(inner, store)
        reasons = [answer.finish_reason for answer in model.complete([prompt(i) for i in range(4)])]
        assert reasons == ["error", "refused", "exhausted", "stop"]
        again = [answer.finish_reason for answer in model.complete([prompt(i) for i in range(4)])]
        assert again == ["stop", "refused", "exhausted", "stop"]
        assert inner.asked[4:] == ["write 0"]
        assert store.completion_counts("counter-1") == {prompt(i).key: 1 for i in range(4)}

    def test_what_arrived_before_an_outage_is_kept(self, store):
        with pytest.raises(TemporaryError):
            Recording(Counter(stops_after=3), store).complete([prompt(i) for i in range(5)])
        inner = Counter()
        Recording(inner, store).complete([prompt(i) for i in range(5)])
        assert inner.asked == ["write 3", "write 4"]

    def test_a_model_that_never_calls_keep_is_recorded_too(self, store):
        class Silent(Counter):
            def complete(self, prompts, keep=keep_nothing):
                return super().complete(prompts)

        remaining = []
        Recording(Silent(), store).complete(
            [prompt(0), prompt(1)], lambda i, c: remaining.append(i)
        )
        assert sorted(remaining) == [0, 1]
        assert len(store.since("counter-1", 0)) == 2

    def test_a_model_that_loses_answers_is_refused(self, store):
        class Short(Counter):
            def complete(self, prompts, keep=keep_nothing):
                return super().complete(prompts[:-1], keep)

        with pytest.raises(FinalError, match="2 completions for 3 prompts"):
            Recording(Short(), store).complete([prompt(i) for i in range(3)])

    def test_unicode_and_broken_surrogates_are_kept(self, store):
        class Strange(Counter):
            def complete(self, prompts, keep=keep_nothing):
                return [
                    Completion(UNICODE + "\0"),
                    Completion("half \ud83d"),
                    Completion("pair \ud83d\ude00"),
                ]

        prompts = [prompt(i) for i in range(3)]
        answers = Recording(Strange(), store).complete(prompts)
        assert [answer.text for answer in answers] == [
            UNICODE + "\0",
            "half \ufffd",
            "pair \U0001f600",
        ]
        assert Recording(Strange(), store).complete(prompts) == answers

    def test_threads_that_request_the_same_at_the_same_time_share_one_answer(self, store):
        inner = Counter(seconds=0.02)
        model = Recording(inner, store)
        answers = {}
        start = threading.Barrier(4)

        def ask(number: int) -> None:
            prompts = [prompt(i) for i in range(6)]
            start.wait()
            answers[number] = model.complete(prompts if number % 2 else prompts[::-1])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(inner.asked) == [f"write {i}" for i in range(6)]
        assert answers[0] == answers[2] == answers[1][::-1] == answers[3][::-1]

    def test_it_can_be_pickled(self, store):
        model = Recording(Counter(), store)
        answers = model.complete([prompt(0)])
        assert pickle.loads(pickle.dumps(model)).complete([prompt(0)]) == answers


class TestRemember:
    def test_a_new_model_receives_all_stored_answers_in_order_before_its_first_request(self, store):
        Recording(Drawer(), store).complete([prompt(i) for i in range(4)])
        inner = Drawer()
        # Only prompt 3 is requested again, yet all four rows were drawn.
        answers = Recording(inner, store).complete([prompt(3), prompt(9)])
        assert inner.told == [(f"write {i}", f"row {i}") for i in range(4)]
        assert [answer.text for answer in answers] == ["row 3", "row 4"]

    def test_a_model_never_receives_its_own_answers_nor_any_twice(self, store):
        inner = Drawer()
        model = Recording(inner, store)
        model.complete([prompt(0)])
        model.complete([prompt(1)])
        store.put("drawer-1", "drawer", prompt(7), Completion("row 9"))
        model.complete([prompt(2)])
        model.complete([prompt(3)])
        assert inner.told == [("write 7", "row 9")]

    def test_a_model_receives_nothing_while_nothing_is_requested(self, store):
        Recording(Drawer(), store).complete([prompt(0)])
        inner = Drawer()
        Recording(inner, store).complete([prompt(0)])
        assert inner.told == []

    def test_an_interrupted_run_ends_like_an_uninterrupted_one(self, store, tmp_path):
        prompts = [prompt(i) for i in range(12)]
        whole = Recording(Drawer(), CompletionStore(tmp_path / "other")).complete(prompts)
        for end in (4, 5, 12):
            answers = Recording(Drawer(), store).complete(prompts[:end])
        assert answers == whole


class TestStore:
    def test_the_first_answer_of_a_prompt_stays_and_the_second_is_counted(self, store):
        first, second = Completion("one"), Completion("two")
        assert store.put("m", "plm", prompt(0), first) is first
        assert store.put("m", "plm", prompt(0), second) == first
        assert store.completion_counts("m") == {prompt(0).key: 2}
        assert len(store.since("m", 0)) == 1

    def test_an_answer_comes_back_with_every_field_and_its_prompt(self, store):
        answer = Completion("text", "length", 7, 9, 0.25, "")
        asked = Prompt(UNICODE, "l", "d", "at", ("g1", "g2"), ("b",), 12, 34)
        store.put("m", "plm", asked, answer)
        assert store.lookup_many("m", [asked.key, "nothing"]) == {asked.key: answer}
        (stored,) = store.since("m", 0)
        assert (stored.prompt, stored.completion) == (asked, answer)
        assert store.since("m", stored.number) == []

    def test_thousands_of_keys_are_looked_up_at_once(self, store):
        store.put("m", "plm", prompt(0), Completion("x"))
        assert list(store.lookup_many("m", [str(i) for i in range(5000)] + [prompt(0).key])) == [
            prompt(0).key
        ]

    def test_files_are_the_owners(self, store):
        store.put("m", "plm", prompt(0), Completion("x"))
        files = list(store.folder.iterdir())
        assert len(files) == 3
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        assert store.folder.stat().st_mode & 0o777 == 0o700

    def test_a_file_that_is_no_database_is_reported_with_its_path(self, store):
        store.file("m").write_bytes(b"not a database, but long enough to be looked at" * 50)
        with pytest.raises(ArtifactError, match=r"\.db cannot be used .*move it .* paid again"):
            store.put("m", "plm", prompt(0), Completion("x"))
        store.file("m").rename(store.folder.parent / "damaged.db")
        assert store.put("m", "plm", prompt(0), Completion("x")).text == "x"

    def test_a_folder_that_cannot_be_made_is_reported_with_its_path(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ArtifactError, match="file/completions"):
            CompletionStore(tmp_path / "file" / "completions")


def _ask_slowly(folder: str, log: str) -> None:
    class Logged(Counter):
        def complete(self, prompts, keep=keep_nothing):
            answers = []
            for position, item in enumerate(prompts):
                time.sleep(0.002)
                answers.append(Completion(f"{os.getpid()} {position}"))
                keep(position, answers[-1])
                with Path(log).open("a") as file:
                    file.write(item.text + "\n")
            return answers

    Recording(Logged(), CompletionStore(Path(folder))).complete([prompt(i) for i in range(300)])


def test_kill_9_loses_no_answer_and_nothing_is_requested_twice(tmp_path):
    context = multiprocessing.get_context("fork")
    log = tmp_path / "log"
    log.write_text("")
    kills = 0
    for _ in range(40):
        process = context.Process(target=_ask_slowly, args=(str(tmp_path / "c"), str(log)))
        process.start()
        process.join(0.12 + 0.01 * kills)  # a busy machine makes progress too
        if process.exitcode == 0:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += 1
    assert kills >= 3
    assert process.exitcode == 0
    message = log.read_text().splitlines()
    assert len(message) == len(set(message))
    asked = CompletionStore(tmp_path / "c").completion_counts("counter-1")
    assert len(asked) == 300
    assert set(asked.values()) == {1}


def _put_many(folder: str, who: int) -> None:
    store = CompletionStore(Path(folder))
    for number in range(60):
        store.put("m", "plm", prompt(number), Completion(f"{who}"))


def test_processes_may_write_one_new_file_at_the_same_time(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=_put_many, args=(str(tmp_path / "c"), who)) for who in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    store = CompletionStore(tmp_path / "c")
    assert len(store.since("m", 0)) == 60
    assert set(store.completion_counts("m").values()) == {4}
    with sqlite3.connect(store.file("m")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def _put_and_close(folder: str, who: int) -> None:
    store = CompletionStore(Path(folder))
    store.put("counter-1", "counter", prompt(who), Completion(f"answer of {who}", "stop"))
    store.close()


def test_a_second_store_of_a_process_leaves_the_locks_of_the_first(tmp_path):
    # POSIX takes all locks of a process off a file when it closes any descriptor of it: another process then takes
    # itself for the last user, removes the write-ahead log at its end, and the first loses what it writes from then on.
    first = CompletionStore(tmp_path)
    _put_and_close(str(tmp_path), 0)  # the file is there, with its log
    first.put("counter-1", "counter", prompt(1), Completion("answer of 1", "stop"))
    second = CompletionStore(tmp_path)
    second.lookup_many("counter-1", [])
    process = multiprocessing.get_context("spawn").Process(
        target=_put_and_close, args=(str(tmp_path), 2)
    )
    process.start()
    process.join(60)
    log = first.file("counter-1").with_suffix(".db-wal")
    assert log.exists(), "the other process took the log away under two open stores"
    for number in range(3, 40):
        first.put("counter-1", "counter", prompt(number), Completion(f"answer of {number}", "stop"))
    first.close()
    second.close()
    remaining = CompletionStore(tmp_path).lookup_many(
        "counter-1", [prompt(number).key for number in range(40)]
    )
    assert sorted(item.text for item in remaining.values()) == sorted(
        f"answer of {number}" for number in range(40)
    )


def test_a_store_of_an_earlier_version_opens_and_takes_marked_answers(tmp_path):
    folder = tmp_path / "completions"
    CompletionStore(folder).put("m", "plm", prompt(0), Completion("old", tokens_in=3, tokens_out=5))
    file = CompletionStore(folder).file("m")
    with sqlite3.connect(file) as database:
        database.execute("ALTER TABLE answers ADD COLUMN checksum TEXT NOT NULL DEFAULT ''")
        for column in ("estimated", "request_id", "seconds"):
            database.execute(f"ALTER TABLE answers DROP COLUMN {column}")
    database.close()
    store = CompletionStore(folder)
    assert store.lookup_many("m", [prompt(0).key]) == {
        prompt(0).key: Completion("old", tokens_in=3, tokens_out=5)
    }
    marked = Completion("new", tokens_in=3, tokens_out=5, dollars=0.5, estimated=True)
    store.put("m", "plm", prompt(1), marked)
    again = CompletionStore(folder)
    assert again.lookup_many("m", [prompt(1).key]) == {prompt(1).key: marked}
    assert [entry.completion.estimated for entry in again.since("m", 0)] == [False, True]
    lengths = again.lengths("m")
    assert lengths.tokens_in == 3
    assert lengths.characters == pytest.approx((len(prompt(0).text) + len(prompt(1).text)) / 2)


def test_completions_of_one_response_share_the_characters_of_their_prompt(tmp_path):
    store = CompletionStore(tmp_path)
    same = [replace(prompt(0), seed=seed) for seed in range(100, 106)]
    for number, entry in enumerate(same[:4]):
        name = f"response {number // 2}"
        store.put("m", "plm", entry, Completion(f"text {number}", tokens_in=5, request_id=name))
    # A server that names no response: each completion paid for its prompt.
    for entry in same[4:]:
        store.put("m", "plm", entry, Completion(f"text {entry.seed}", tokens_in=10))
    lengths = store.lengths("m")
    assert lengths.tokens_in == pytest.approx((4 * 5 + 2 * 10) / 6)
    assert lengths.characters / lengths.tokens_in == pytest.approx(len(prompt(0).text) / 10)


def test_the_first_batch_of_a_local_model_is_part_of_its_measured_speed(tmp_path, monkeypatch):
    clock = iter(
        [0.0, 100.0, 148.0, *[148.0] * 15]
    )  # the call, the loaded model, then 16 texts at once
    monkeypatch.setattr(
        completion_cache, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=time.sleep)
    )
    store = CompletionStore(tmp_path / "completions")
    Recording(Counter(), store).complete([prompt(number) for number in range(16)])
    assert store.lengths(Counter().identity).seconds == pytest.approx(48 / 16)


def test_the_speed_of_a_store_of_an_earlier_version_is_that_of_all_its_answers(tmp_path):
    store = CompletionStore(tmp_path / "completions")
    for number in range(6):
        store.put("m", "plm", prompt(number), Completion("text", tokens_in=3, tokens_out=5))
    with sqlite3.connect(
        store.file("m")
    ) as database:  # two, a pause, then two batches of two in a second each
        for number, second in enumerate((0, 0, 3600, 3600, 3601, 3601)):
            when = datetime.fromtimestamp(second, UTC).isoformat()
            database.execute("UPDATE answers SET created = ? WHERE number = ?", (when, number + 1))
    database.close()
    assert store.lengths("m").seconds == pytest.approx(1 / 4)


def test_lengths_of_a_model_without_a_file_open_nothing(tmp_path):
    store = CompletionStore(tmp_path)
    assert store.is_empty()
    assert store.lengths("m").answers == 0
    assert list(tmp_path.iterdir()) == []
    store.put("other", "plm", Prompt("a", "x"), Completion("b", "stop"))
    assert not CompletionStore(tmp_path).is_empty()
