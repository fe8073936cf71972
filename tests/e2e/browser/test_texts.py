"""The texts of a report as a reader sees them: from right to left, and of many pages."""

from pathlib import Path

import pandas as pd

from tasks.reporting.report import render
from tests.support.browser.browser import Browser
from tests.support.data.notes import notes
from tests.support.data.reports import made_up_report

LONG = "The ward was quiet.\n\n" * 400
LAST = """const text = [...document.querySelectorAll('#rows bdi')][0], range = document.createRange()
const node = text.firstChild, box = (start, end) => { range.setStart(node, start); range.setEnd(node, end)
  return range.getBoundingClientRect() }
return [box(0, 1).left, box(node.length - 1, node.length).left]"""
"""Left edges of the first and the last character of the first text."""


def test_arabic_ends_at_the_left_and_a_long_text_is_folded(window: Browser, tmp_path: Path) -> None:
    arabic = notes("ar")[0][0].partition(".")[0] + "."
    rows = pd.DataFrame(
        {"text": [arabic, LONG], "label": ["heart", "lung"], "plm": "a", "iteration": 0}
    )
    page = tmp_path / "report.html"
    page.write_text(render(made_up_report(map=None), rows), encoding="utf-8")
    window.open(page.as_uri())
    window.see("2 of 2 texts", "(8,400 characters)")
    first, last = window.driver.execute_script(LAST)
    assert last < first
    height = "return document.querySelectorAll('#rows li')[1].getBoundingClientRect().height"
    folded = window.driver.execute_script(height)
    window.driver.execute_script("document.querySelector('#rows details').open = true")
    assert window.driver.execute_script(height) > 5 * folded
