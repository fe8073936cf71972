"""Links between pages hold for a reader of a clone, not on the documentation site alone."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

CODE = re.compile(r"```.*?```", re.S)
HEADING = re.compile(r"^#+ (.+)$", re.M)
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
LISTED = subprocess.run(
    ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
)
PAGES = LISTED.stdout.split()


def prose(page: Path) -> str:
    return CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    headings = (
        re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(page))
    )
    return {heading.replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_a_link_of_a_page_leads_to_a_file_and_heading_of_the_clone(name: str) -> None:
    page = ROOT / name
    for target, anchor in LINK.findall(prose(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{name} links {target}, which does not exist"
        if anchor and file.suffix == ".md":
            assert anchor[1:] in anchors(file), (
                f"{name} links {target}{anchor}, which is no heading of {file.name}"
            )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_mark_that_only_the_site_replaces(name: str) -> None:
    lines = prose(ROOT / name).splitlines()
    assert not [
        line for line in lines if line.startswith(":::") or re.fullmatch(r"[A-Z_]{4,}", line)
    ]
