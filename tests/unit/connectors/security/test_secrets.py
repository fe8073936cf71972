"""Keys and passwords in messages, tracebacks and log lines: nobody reads them there."""

import io
import logging
from collections.abc import Iterator

import pytest

from connectors.interfaces.redaction import guard_logs, redact, redact_output
from connectors.security.secrets import read_secret

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("some.library")
    logger.addHandler(handler)
    before = logging.getLogRecordFactory()
    guard_logs()
    yield stream
    logging.setLogRecordFactory(before)
    logger.removeHandler(handler)


def test_a_key_that_was_read_is_hidden_wherever_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLERKS_DESK", KEY)
    assert redact(f"refused: {KEY}") == f"refused: {KEY}"
    read_secret("env:CLERKS_DESK")
    assert redact(f"refused: {KEY}!") == "refused: ***!"


@pytest.mark.parametrize(
    "name", ["SOME_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PGPASSWORD", "WASP_AUTH"]
)
def test_what_a_secret_variable_holds_is_hidden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "clerk:fourteen-letters")
    assert redact("as clerk:fourteen-letters to the desk") == "as *** to the desk"


def test_the_password_of_a_pair_is_hidden_alone_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "clerk:fourteen-letters")
    assert redact("password 'fourteen-letters' is wrong") == "password '***' is wrong"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "postgresql://nurse:p4ss/w@rd@db:5432/ward is down",
            "postgresql://nurse:***@db:5432/ward is down",
        ),
        ("https://files/rows.csv?sig=abc123&v=1", "https://files/rows.csv?sig=***&v=1"),
        ("see https://host:4200/runs and a@b.org", "see https://host:4200/runs and a@b.org"),
        ("the short word key stays", "the short word key stays"),
    ],
)
def test_passwords_in_addresses_are_hidden_and_ordinary_words_stay(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_words_of_a_vendor_lose_whatever_looks_like_a_key() -> None:
    assert (
        redact_output("Incorrect API key provided: sk-proj-abcdefgh")
        == "Incorrect API key provided: ***"
    )
    assert redact_output("header Bearer abc.def") == "header ***"


def test_log_lines_and_tracebacks_of_any_library_are_clean(
    written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TOKEN", KEY)
    logger = logging.getLogger("some.library")
    try:
        try:
            raise ValueError(f"inner {KEY}")
        except ValueError as error:
            raise RuntimeError("outer") from error
    except RuntimeError:
        logger.exception("with %s", KEY)
    logger.warning("three of %d", 4)
    said = written.getvalue()
    assert KEY not in said
    assert "with ***" in said
    assert "ValueError: inner ***" in said
    assert "three of 4" in said


def test_guarding_twice_guards_once(written: io.StringIO) -> None:
    before = logging.getLogRecordFactory()
    guard_logs()
    assert logging.getLogRecordFactory() is before


def test_words_that_do_not_fit_their_values_are_left_to_logging() -> None:
    make = logging.getLogRecordFactory()
    guard_logs()
    try:
        record = logging.getLogger("some.library").makeRecord(
            "", 30, "", 1, "%d texts", ("many",), None
        )
        assert (record.msg, record.args) == ("%d texts", ("many",))
    finally:
        logging.setLogRecordFactory(make)
