"""Content keys: one canonical text form, one digest."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path

OMITTED_IF_EMPTY = {"omitted if empty": True}
"""Metadata of a dataclass field that was added later: keys of earlier versions do not contain it."""


def canonical(value: object) -> str:
    """Return `value` as JSON with sorted keys and no blanks, the input of every key.

    Sets are refused: their order differs between processes.
    """
    # Every stored key, hash and signature depends on this text: another separator or escape would change all of them.
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain
    )


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        own = [(field, getattr(value, field.name)) for field in fields(value)]  # type: ignore[arg-type]
        return {
            field.name: item for field, item in own if item or field.metadata != OMITTED_IF_EMPTY
        }
    raise TypeError(f"{type(value).__name__} has no canonical form")


def digest(value: object) -> str:
    """Return the SHA-256 of `canonical(value)` as 64 hexadecimal digits.

    Never use it on private content.
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()
