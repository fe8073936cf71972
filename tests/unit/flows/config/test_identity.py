"""A marked field has no part in the id of a run; every other field has one."""

from typing import Annotated

import pytest
from pydantic import BaseModel

from flows.catalog import find_method, method_names
from flows.config.base import AnyConfig
from flows.config.form import Strict
from flows.config.identity import (
    BY_CONTENT,
    NOT_IDENTITY,
    TABLE_BY_CONTENT,
    NotIdentity,
    identity_of,
)

MARKED = {
    "task",
    "data_root",
    "plms",
    "plms_used",
    "filler",
    "tracking",
    "limits",
    "export",
    "execution.task_runner",
    "execution.max_workers",
    "execution.cluster",
    "execution.approval",
    "execution.on_model_down",
    "privacy.on_lost_artifacts",
    "private.path",
    "private.dataset",
    "private.name",
    "private.group",
    "test.path",
    "public.path",
    "public_corpus.path",
    "public_corpus.source",
    "public_corpus.licence",
    "few_shot.path",
    "vocabulary.path",
    "parties.registry",
    "parties.exchange",
    "parties.minutes",
    "parties.name",
}
"""A run of another version has another id if one of these changes."""


class Table(Strict):
    path: Annotated[str, TABLE_BY_CONTENT] = "here.csv"
    text: str = "text"


class Settings(Strict):
    seed: int = 0
    workers: Annotated[int, NOT_IDENTITY] = 4
    model: Annotated[str, BY_CONTENT] = "small"
    test: Table | None = None


class Later(Settings):
    model: str = "large"


def paths_of(kind: type[BaseModel], path: str = "") -> set[str]:
    """Return the paths of all marked fields of a class, by the function that ids are made with."""
    paths = set()
    for name, field in kind.model_fields.items():
        marked = identity_of(kind, {name: "value"})
        if marked.get(name) != "value":
            paths.add(path + name)
            continue
        for group in [field.annotation, *getattr(field.annotation, "__args__", ())]:
            if isinstance(group, type) and issubclass(group, BaseModel):
                paths |= paths_of(group, f"{path}{name}.")
    return paths


def test_the_marked_fields_of_all_methods_are_these() -> None:
    configs = [find_method(name).config for name in method_names()]
    assert set().union(*map(paths_of, configs)) == MARKED
    assert all(issubclass(config, AnyConfig) for config in configs)


def test_a_mark_leaves_a_field_out_or_replaces_it() -> None:
    values = Settings(test=Table(path="there.csv")).model_dump()
    assert identity_of(Settings, values) == {
        "seed": 0,
        "test": {"path": "", "text": "text", "name": ""},
    }
    assert values["test"]["path"] == "there.csv", "the values themselves stay"


def test_configurations_are_compared_with_the_names_of_their_contents() -> None:
    values = Settings(test=Table()).model_dump()
    assert identity_of(Settings, values, by_name=True) == {
        "seed": 0,
        "model": "small",
        "test": {"path": "here.csv", "text": "text"},
    }


@pytest.mark.parametrize("by_name", [False, True])
def test_a_field_that_a_version_lost_stays(by_name: bool) -> None:
    assert identity_of(Settings, {"gone": {"a": 1}}, by_name) == {"gone": {"a": 1}}


def test_a_subclass_that_declares_a_field_again_does_not_lose_its_mark() -> None:
    assert identity_of(Later, Later().model_dump()) == {"seed": 0, "test": None}


def test_marks_change_no_form() -> None:
    assert "NotIdentity" not in str(Settings.model_json_schema())
    assert all(
        isinstance(mark, NotIdentity) for mark in (TABLE_BY_CONTENT, BY_CONTENT, NOT_IDENTITY)
    )
