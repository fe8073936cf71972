"""Golden pages: what a reader of a report sees, as text; each report has one."""

import difflib
import html
import os
import re

from tests.support.paths import ROOT

UPDATE = "UPDATE_GOLDEN"
"""With this variable a test writes its golden page instead of comparing it."""


def check_page(name: str, page: str, usual: str = "") -> None:
    """Compare the text of a page with tests/golden/pages/NAME.txt; times and hashes do not count.

    usual: another page; the golden file then has the lines alone that the page has more (+) or less (-) than it.
    """
    path = ROOT / "tests" / "golden" / "pages" / f"{name}.txt"
    text = text_of(page)
    if usual:
        lines = difflib.ndiff(
            text_of(usual).splitlines(keepends=True), text.splitlines(keepends=True)
        )
        text = "".join(line for line in lines if line.startswith(("+", "-")))
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        f"write the new page with {UPDATE}=1, and read its difference"
    )


def text_of(page: str) -> str:
    """Return the visible text of a page, a line for each block, without figures."""
    body = page[page.index("<body") :]
    body = re.sub(r"<(svg|script|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r"</(p|h1|h2|h3|li|tr|dd|dt|caption|summary|figcaption)>", "\n", body)
    body = re.sub(r"</t[hd]>", " | ", body)
    body = html.unescape(re.sub(r"<[^>]*>", "", body))
    body = re.sub(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d)?", "DATE", body)
    body = re.sub(r"\b[0-9a-f]{12,64}\b", "HASH", body)
    lines = (" ".join(line.split()) for line in body.splitlines())
    return "\n".join(line for line in lines if line) + "\n"
