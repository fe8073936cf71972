"""Jinja templates of self-contained pages: report, comparison, officer's page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES = Path(__file__).parent / "templates"


def template(name: str) -> Template:
    """Return a template with strict undefined variables and automatic escaping."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.lstrip_blocks = True
    return environment.get_template(name)
