"""A local origin with made-up files of the layouts that recipes read."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.data import download
from flows.data.recipes import Recipe, read_recipe
from tests.support.servers.files import FileServer, file_server, recipe_values

ROWS = b"text,label\n" + b"".join(b"made up text %d,%d\n" % (n, n % 2) for n in range(400))
AGREED = lambda _: True  # noqa: E731


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setattr(download, "FIRST_PAUSE_SECONDS", 0.0)
    with file_server() as server:
        server.files["/set/rows.csv"] = ROWS
        yield server


def pinned(server: FileServer) -> dict[str, Any]:
    """Return the values of a recipe that states the digest of its file."""
    return recipe_values(server, sha256=hashlib.sha256(ROWS).hexdigest(), bytes=len(ROWS))


def write_recipe(path: Path, values: dict[str, Any]) -> Recipe:
    # In order: a table reads only those before it.
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return read_recipe(str(path))
