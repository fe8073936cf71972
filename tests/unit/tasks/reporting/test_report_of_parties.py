"""What report and bundle say of a run whose rows lie with several parties."""

from dataclasses import replace

from tasks.reporting.report import render
from tasks.reporting.report_model import from_json, to_json
from tasks.reporting.text import promise, uncovered
from tests.support.data.reports import made_up_report as report

TOLD = {
    "names": ["north", "south", "west"],
    "number": 3,
    "minimum": 2,
    "colluding": 1,
    "share": 2.5,
    "guarantees": [
        {"colluding": 0, "epsilon": 2.9, "promised": True},
        {"colluding": 2, "epsilon": 5.7, "promised": False},
    ],
    "rounds": [
        {
            "iteration": 0,
            "attempt": 2,
            "parties": 2,
            "dropped": {"west": "did not answer in time"},
            "bytes": {"down": 123456, "between": 789, "up": 4321},
            "of_one": {},
        }
    ],
}


def test_the_page_shows_rounds_bytes_and_what_holds_when_parties_collude() -> None:
    told = replace(report(), parties=TOLD)
    page = render(from_json(to_json(told)))
    for words in ("123,456", "789", "4,321", "west: did not answer in time", "does not hold", "5.7"):
        assert words in page, words
    assert "<h2>Parties</h2>" not in render(report())


def test_the_promise_names_against_whom_it_holds() -> None:
    told = replace(report(), parties=TOLD)
    assert any("even together with 1 of the parties" in one for one in promise(told))
    alone = replace(told, parties=TOLD | {"colluding": 0})
    assert any("not against another party" in one for one in promise(alone))
    assert any("made-up votes" in one for one in uncovered(told))
    assert not any("parties" in one for one in [*promise(report()), *uncovered(report())])
