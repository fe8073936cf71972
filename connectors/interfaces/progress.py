"""Progress callback for long work, and batching."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

Advance = Callable[[int], None]
"""Called with the number of units just finished."""


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield consecutive pieces of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
