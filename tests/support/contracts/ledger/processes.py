"""Several processes on one book, and processes that are killed."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from connectors.ledger import database
from connectors.ledger.ledger import PrivacyLedger
from tests.support.ledgers import (
    DELTA,
    ONE,
    TWO,
    answers,
    charge,
    child,
    events,
    kill_where_it_hangs,
    never,
    plan,
    request,
    spent,
    zcdp,
)


class Racing:
    def test_a_long_wait_for_another_writer_is_reported_once(
        self,
        url: str,
        book: PrivacyLedger,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(database, "NOTICE_SECONDS", 0.1)
        book.reserve("bank", plan(), "me")
        with ThreadPoolExecutor(1) as pool:

            def draw() -> bytes:
                capped = pool.submit(
                    PrivacyLedger(url, zcdp).set_cap, "bank", 9.0, DELTA, "owner", ""
                )
                deadline = time.monotonic() + 60
                while not caplog.records and time.monotonic() < deadline:
                    time.sleep(0.02)
                assert not capped.done()
                return b"noise"

            book.release_once(request(), draw)
        assert book.status("bank").cap == 9.0
        (record,) = caplog.records
        assert record.getMessage().startswith("Another process has locked the privacy ledger")

    def test_processes_that_race_for_one_release_draw_once(
        self, url: str, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(), "me")
        code = """
            def draw(): time.sleep(0.3); return os.urandom(16)
            say("ready"); sys.stdin.readline()
            release = book.release_once(request(), draw)
            say(release.reused, release.output.hex())
        """
        lines = [line.split() for line in answers([child(url, code) for _ in range(4)])]
        assert sorted(reused for reused, _ in lines) == ["False"] + ["True"] * 3
        assert len({output for _, output in lines}) == 1
        assert len(events(book, "bank")) == 1
        assert book.verify() == []

    def test_processes_that_race_for_the_last_of_a_cap_never_pass_it(
        self, url: str, book: PrivacyLedger
    ) -> None:
        cap = zcdp([charge().event] * 7, DELTA)
        book.set_cap("bank", cap, DELTA, "owner", "")
        code = """
            from connectors.interfaces.errors import BudgetError
            say("ready"); sys.stdin.readline()
            won = 0
            for n in range(5):
                try: book.reserve("bank", plan(f"{sys.argv[2]}-{n}", 1), "me"); won += 1
                except BudgetError: pass
            say(won)
        """
        won = sum(
            int(line) for line in answers([child(url, code, str(number)) for number in range(4)])
        )
        assert won == 7
        status = book.status("bank")
        assert (status.reserved, status.refused) == (pytest.approx(cap), 13)
        assert book.verify() == []

    def test_processes_that_open_a_new_book_together_register_one_dataset(
        self, fresh_url: str
    ) -> None:
        code = """
            say("ready"); sys.stdin.readline()
            say(book.register("bank", "fingerprint-1", ["a", "b"]))
        """
        assert answers([child(fresh_url, code) for _ in range(4)]) == ["bank"] * 4
        book = PrivacyLedger(fresh_url, zcdp)
        assert [entry.kind for entry in book.history("bank")] == ["register"]
        assert book.verify() == []


# Where a process is killed: code that makes it say "here" and hang at one point of `release_once`.
HANGS = {
    "before the draw": "book._cap_check = type(book._cap_check)(lambda events, delta: hang())",
    "during the draw": "draw = hang",
    "after the insert, before the commit": """
from sqlalchemy import Engine, event
event.listen(Engine, "commit", lambda db: hang() if db.get_execution_options().get("ledger_writes") else None)""",
}
AFTER = {
    "after the commit, before the return": """
from sqlalchemy import Engine, Pool, event
written = []
event.listen(Engine, "commit", lambda db: written.append(db.get_execution_options().get("ledger_writes")))
event.listen(Pool, "close", lambda *_: hang() if any(written) else None)""",
    "after the return": "after = hang",
}


class Killing:
    @pytest.mark.parametrize("point", HANGS)
    def test_killed_before_the_commit_nothing_is_charged_and_nothing_kept(
        self, url: str, book: PrivacyLedger, point: str
    ) -> None:
        kill_at(url, book, HANGS[point])
        assert events(book, "bank") == []
        assert not book.released("bank", "key-0")
        assert book.release_once(request(), lambda: b"second").output == b"second"
        assert len(events(book, "bank")) == 1
        assert book.verify() == []

    @pytest.mark.parametrize("point", AFTER)
    def test_killed_after_the_commit_the_same_output_is_found_again(
        self, url: str, book: PrivacyLedger, point: str
    ) -> None:
        kill_at(url, book, AFTER[point])
        release = book.release_once(request(), never)
        assert (release.output, release.reused) == (b"first", True)
        assert spent(book, "bank") == pytest.approx(ONE)
        assert book.verify() == []


def kill_at(url: str, book: PrivacyLedger, hang: str) -> None:
    """Reserve, then kill -9 a process that releases slot 0 while it hangs at one point."""
    book.set_cap("bank", TWO, DELTA, "owner", "")
    book.reserve("bank", plan(), "me")
    code = f"draw, after = (lambda: b'first'), (lambda: None)\n{hang}\nbook.release_once(request(), draw)\nafter()"
    kill_where_it_hangs(child(url, code))
