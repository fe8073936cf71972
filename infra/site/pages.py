"""Hooks of the documentation site: pages from other folders, generated reference, links.

Pages that have their place elsewhere (README.md, the guarantee, CONTRIBUTING.md) are included, not copied. Links to
files that are no page become plain code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import reference  # noqa: E402

INCLUDED = {
    "index.md": "README.md",
    "privacy/guarantee.md": "tasks/private/README.md",
    "privacy/security.md": "SECURITY.md",
    "guides/deploy.md": "infra/README.md",
    "develop/connectors.md": "connectors/README.md",
    "develop/contributing.md": "CONTRIBUTING.md",
    "develop/changelog.md": "CHANGELOG.md",
}
"""Page -> its source in the repository."""
GENERATED = {
    "reference/configuration.md": reference.configuration,
    "reference/commands.md": reference.commands,
    "reference/metrics.md": reference.metrics,
    "tutorials/notebook.md": lambda: reference.notebook(
        ROOT / "docs" / "tutorials" / "notebook.py"
    ),
}
INSERTED = {
    "reference/files.md": (
        "The table of all columns is on the documentation site (`make docs`).",
        reference.columns,
    ),
    "reference/python.md": (
        "The signatures are on the documentation site (`make docs`), and in Python: `help(wasp.run)`.",
        reference.python,
    ),
}
"""Page -> a sentence for readers of a clone, and what replaces it on the site."""
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the included and the generated pages."""
    for page, source in INCLUDED.items():
        files.append(
            File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8"))
        )
    for page, make in GENERATED.items():
        files.append(File.generated(config, page, content=make()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links of a page: to pages where there is one, else to the path as code."""
    path = page.file.src_uri
    if path in INSERTED:
        sentence, make = INSERTED[path]
        if markdown.count(sentence) != 1:
            raise ValueError(f"docs/{path}: expected once: {sentence}")
        markdown = markdown.replace(sentence, make())
    source = INCLUDED.get(path, f"docs/{path}")
    pages = {origin: name for name, origin in INCLUDED.items()}

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        origin = normpath(PurePosixPath(source).parent / target)
        name = pages.get(origin) or (
            origin.removeprefix("docs/") if origin.startswith("docs/") else None
        )
        if name is None or not (name in INCLUDED or (ROOT / origin).is_file()):
            return f"{text} (`{origin}`)" if text.strip("`") != origin else f"`{origin}`"
        name = "tutorials/notebook.md" if name == "tutorials/notebook.py" else name
        return f"[{text}]({relpath(name, PurePosixPath(path).parent)}{anchor})"

    return LINK.sub(link, markdown)
