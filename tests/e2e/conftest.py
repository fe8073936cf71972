"""One Prefect server for all end-to-end tests of a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline import Pipeline, prefect_server


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as address:
        yield address


@pytest.fixture
def pipeline(api: str, tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path / "home", api)
