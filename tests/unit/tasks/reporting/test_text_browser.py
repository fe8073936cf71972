"""All texts of a run in its report, and their quality by class."""

import json

import pytest

from tasks.reporting import text_browser
from tasks.reporting.report import render
from tasks.reporting.text_browser import TextRow, browse, near_copies
from tests.support.data.reports import made_up_report

ROWS = [
    TextRow("The parcel is late again, please call me", "delivery", "clerk", 0),
    TextRow("the parcel is late again please call me", "delivery", "writer", 1),
    TextRow("I was charged twice </script><script>alert(1)</script>", "billing", "clerk", 1),
]


def test_every_text_is_in_the_page_and_ends_no_script() -> None:
    browser = browse(ROWS)
    assert "</script" not in browser.data
    data = json.loads(browser.data)
    assert [row[0] for row in data["rows"]] == [row.text for row in ROWS]
    assert data["labels"] == ["delivery", "billing"]
    page = render(made_up_report(), ROWS)
    assert page.count("<script") == page.count("</script>") == 3
    assert "alert(1)" in page
    assert "<script>alert" not in page


def test_quality_is_stated_by_class() -> None:
    delivery, billing = browse(ROWS).classes
    assert (delivery.texts, delivery.words, delivery.copies) == (2, 8, 1.0)
    assert (billing.texts, billing.copies) == (1, 0.0)


@pytest.mark.parametrize(("texts", "copies"), [([], []), (["one"], [False]), (["?", "!"], [False, False])])
def test_few_texts_have_no_copies(texts: list[str], copies: list[bool]) -> None:
    assert near_copies(texts) == copies


def test_a_large_set_is_shown_evenly_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_browser, "MOST_BYTES", 60)
    browser = browse(ROWS)
    assert browser.shown < browser.total == 3
    assert f"this page has {browser.shown} of them" in render(made_up_report(), ROWS)
