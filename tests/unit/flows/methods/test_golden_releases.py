"""A change of the code changes no charge, plan, warning, outcome, audit, step key or run id that it does not mean to.

After a change that is meant: `python -m tests.support.golden_releases`, and read the difference.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.golden_releases import (
    GROUPS,
    STEPS,
    bare_machine,
    differences,
    read,
    steps,
    tolerance_of,
)

REMEDY = "If the change is meant, write the record: python -m tests.support.golden_releases"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with bare_machine(tmp_path_factory.mktemp("golden")) as file:
        yield file


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group in GROUPS for name in GROUPS[group].recorded()]
)
def test_a_configuration_releases_what_is_recorded(group: str, name: str, registry: Path) -> None:
    recorded = GROUPS[group].recorded()[name]
    changed = differences(recorded, GROUPS[group].entry(name, registry), tolerance_of(recorded))
    assert not changed, "\n".join([*changed, REMEDY])


@pytest.mark.parametrize("group", GROUPS)
def test_every_configuration_is_recorded(group: str) -> None:
    assert sorted(GROUPS[group].names()) == sorted(GROUPS[group].recorded())


def test_every_step_has_the_version_and_the_keys_that_are_recorded() -> None:
    changed = differences(read(STEPS), steps())
    assert not changed, "\n".join([*changed, REMEDY])
