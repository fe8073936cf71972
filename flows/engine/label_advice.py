"""Warnings about names of classes that mean nothing to a language model."""

from collections.abc import Sequence

from connectors.interfaces.counts import counted
from connectors.interfaces.rows import NO_CLASS
from connectors.interfaces.text_forms import is_code
from tasks.writing.prompts import Label

SHOWN = 3
"""Names in a warning."""


def undescribed(labels: Sequence[Label]) -> list[str]:
    """Return the names that are numbers, codes, yes or no, and have no description."""
    return [
        label.name
        for label in labels
        if not label.description and label.name != NO_CLASS and is_code(label.name)
    ]


def has_unnamed(labels: Sequence[Label]) -> bool:
    """Return True if no name or description of a class says anything to a language model."""
    return len(undescribed(labels)) == len(labels)


def label_warnings(labels: Sequence[Label]) -> list[str]:
    """Return a warning about names that prompts contain and no model understands; none if all are words."""
    names = undescribed(labels)
    if not names:
        return []
    listed = ", ".join(f"'{name}'" for name in names[:SHOWN])
    if len(names) > SHOWN:
        listed += f" and {len(names) - SHOWN} more"
    return [
        f"task: {counted(len(names), 'class name')} without a description (numbers, codes, yes or no): {listed}. "
        "Prompts contain them, and a model cannot know what they mean. Write a description of each into the task file"
    ]
