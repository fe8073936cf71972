"""The privacy officer's printable page: the budget of one dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connectors.interfaces.errors import ConfigError
from tasks.reporting import text as report_words
from tasks.reporting.ledger_page_model import OfficerPage
from tasks.reporting.templates import template

_FOLDER = Path(__file__).parent
LANGUAGES = ("en", "de", "zh")


def wording(language: str) -> dict[str, Any]:
    """Return the page texts of a language by key; ConfigError if unknown."""
    import yaml

    if language not in LANGUAGES:
        raise ConfigError(f"Language '{language}': not supported. Use one of {', '.join(LANGUAGES)}.")
    text = (_FOLDER / "wording" / f"{language}.yaml").read_text(encoding="utf-8")
    texts: dict[str, Any] = yaml.safe_load(text)
    return texts


def render(page: OfficerPage, language: str = "en") -> str:
    """Return the page as self-contained HTML; numbers are equal in every language."""
    texts = wording(language)
    return template("officer.html.j2").render(
        page=page,
        language=language,
        w=texts,
        say=lambda key, **values: str(texts[key]).format(**values),
        epsilon=lambda value: texts["infinite"] if value is None else report_words.epsilon(value),
        percent=_percent,
        number=report_words.number,
        count=report_words.count,
    )


def _percent(share: float) -> str:
    return "> 99.99 %" if share > 0.9999 else f"{100 * share:.1f} %"
