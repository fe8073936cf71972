"""Jinja templates of self-contained pages: report, comparison, audit, ledger page."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_TEMPLATES = Path(__file__).parent / "templates"


def _script_hash(environment: Environment) -> str:
    """Return the base64 SHA-256 of the only script that a page may run: defence in depth beside the escaping."""
    # With the line break behind <script>, which browsers include in the hash.
    script = "\n" + environment.get_template("report.js").render()
    return b64encode(sha256(script.encode()).digest()).decode()


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
    # Lazily: the hash needs a template of this environment, and only HTML pages have a script.
    environment.globals["script_hash"] = lambda: _script_hash(environment)
    return environment.get_template(name)
