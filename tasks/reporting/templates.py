"""Jinja templates of self-contained pages: report, comparison, audit, ledger page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES = Path(__file__).parent / "templates"


def template(name: str) -> Template:
    """Return a template with strict undefined variables; HTML is escaped, Markdown is not."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.lstrip_blocks = True
    return environment.get_template(name)
