"""Marks on fields that have no part in the id of a run, and the function that reads them.

The id of a run is a digest of its settings, its task, its models and its rows. A setting is part of it unless its field
has a mark. The location of rows or of a vocabulary is marked, so a method with tables of its own returns their content
as `contents` of its `Method`; otherwise runs on different tables are equal.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from pydantic import BaseModel

from connectors.interfaces.json_values import Json


@dataclass(frozen=True, slots=True, eq=False)
class NotIdentity:
    """Marks a field that the id of a run does not contain: `Annotated[Limits, NotIdentity()]`.

    Attributes:
        by_content: the field names something whose content the id contains instead, such as a file.
        placeholders: values by name that the digest has in its place.
    """

    by_content: bool = False
    placeholders: Mapping[str, str] = field(default_factory=dict)


NOT_IDENTITY: Final = NotIdentity()
"""Changes how a run is executed, limited, tracked or exported, but no result."""
BY_CONTENT: Final = NotIdentity(by_content=True)
"""Names what the id contains by its content."""
# The first digests had an empty path and an empty name for each table, also for tables without a field `name`.
TABLE_BY_CONTENT: Final = NotIdentity(by_content=True, placeholders={"path": "", "name": ""})
"""Location or name of a table, which its content identifies."""


def identity_of(kind: type[BaseModel], values: Mapping[str, Any], by_name: bool = False) -> Json:
    """Return the values of a configuration that are part of the id of its run.

    Args:
        kind: class of the configuration.
        values: its JSON values, or those of a stored run, which may have fields that the class lost since. Such fields
            are returned.
        by_name: also return the fields that name a content, to compare configurations without opening the content.
    """
    result: Json = {}
    placeholders: dict[str, str] = {}
    for name, value in values.items():
        mark = _mark_of(kind, name)
        group = _group_of(kind, name)
        if mark is None or (by_name and mark.by_content):
            if group is not None and isinstance(value, dict):
                result[name] = identity_of(group, value, by_name)
            else:
                result[name] = deepcopy(value)
        elif name in mark.placeholders:
            result[name] = mark.placeholders[name]
        if mark is not None and not by_name:
            placeholders.update(mark.placeholders)
    # Behind the fields: a manifest of an earlier version has them in this order.
    return result | {name: text for name, text in placeholders.items() if name not in result}


def _mark_of(kind: type[BaseModel], name: str) -> NotIdentity | None:
    """Return the mark of a field, also if a subclass declares the field again without it."""
    for base in kind.__mro__:
        if issubclass(base, BaseModel) and name in base.model_fields:
            for metadata in base.model_fields[name].metadata:
                if isinstance(metadata, NotIdentity):
                    return metadata
    return None


def _group_of(kind: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the class of a field that is a group of fields."""
    if name not in kind.model_fields:
        return None
    annotation = kind.model_fields[name].annotation
    for option in (annotation, *get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None
