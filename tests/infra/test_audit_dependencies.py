"""What is said of installed packages with known vulnerabilities."""

from typing import Any

import pytest

from infra import audit_dependencies as audit

SKIPPED = {"name": "local", "skip_reason": "not found on PyPI"}
SOUND = {"name": "numpy", "version": "2.0", "vulns": []}


def jinja(**more: Any) -> dict[str, Any]:
    advisory = {"id": "PYSEC-1", "fix_versions": ["3.1.6"], "aliases": ["CVE-2025-1"], "description": "..."}
    return {"name": "jinja2", "version": "3.1.0", "vulns": [advisory]} | more


def test_an_advisory_fails_with_package_and_remedy() -> None:
    words, passed = audit.verdict([SOUND, SKIPPED, jinja()], {})
    assert not passed
    assert words.split("\n") == [
        "Dependencies: 2 of 3 audited, 1 with advisories",
        "  jinja2 3.1.0: PYSEC-1, mended in 3.1.6",
    ]


@pytest.mark.parametrize("name", ["PYSEC-1", "CVE-2025-1"])
def test_an_accepted_advisory_passes_by_id_or_alias(name: str) -> None:
    assert audit.verdict([SOUND, jinja()], {name: "templates are ours"})[1]


def test_where_advisories_cannot_be_asked_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WASP_ADVISORIES", raising=False)
    assert audit.verdict([SKIPPED], {}) == (
        "Dependencies: NOT audited, advisories cannot be asked for (the package index here has none)",
        True,
    )
    assert "no route" in audit.verdict([], {}, "no route")[0]
    monkeypatch.setenv("WASP_ADVISORIES", "required")
    assert not audit.verdict([SKIPPED], {})[1]
