"""The promise's table of threats names tests that exist."""

import re

from tests.support.paths import ROOT

PROMISE = ROOT / "tasks" / "private" / "README.md"


def threats() -> list[list[str]]:
    """Return the cells of each row of the table."""
    table = PROMISE.read_text().partition("## Threats")[2].partition("\n## ")[0]
    rows = [line.strip("| ") for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.split(" | ")] for row in rows]


def test_every_threat_names_a_test_that_exists_or_says_that_it_is_not_covered() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    tests = set(re.findall(r"def (test_\w+)", code))
    assert len(threats()) > 15
    for somebody, _, meets, *shown in threats():
        named = re.findall(r"`(test_\w+)`", " ".join(shown))
        assert named or "**not covered**" in meets, f"no test shows what meets somebody who {somebody}"
        assert set(named) <= tests, f"{somebody}: {set(named) - tests} is no test"
