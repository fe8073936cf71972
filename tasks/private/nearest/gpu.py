"""The same proposals from a graphics processor, through torch; what is proposed is measured where all else is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tasks.private.nearest.exact import Standing
    from tasks.private.nearest.proposals import Proposals, Spans, Task

LARGE: Final = 10**11
"""Multiplications from which on an election takes longer than to load torch."""
ROWS: Final = 8192
SHARE: Final = 16
"""One part in so many of the free memory of the device holds a block's distances; topk needs several times as much."""
ELSEWHERE: Final = 2**24
"""Distances of a block where the device is the processor itself, as in tests."""
_PRECISION: Final = Lock()


@cache
def exists() -> bool:
    """Return whether torch is installed and finds a device."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def propose(task: Task, standing: Standing, spans: Spans, proposed: Proposals, block: int) -> None:
    """Fill `proposed` as `tasks.private.nearest.blocks.propose` does."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    distances = torch.cuda.mem_get_info()[0] // (4 * SHARE) if device.type == "cuda" else ELSEWHERE
    with torch.inference_mode(), _whole_products(torch):
        for span, rows, group in task.looks(spans):
            found = proposed.of(rows)
            width = max(1, min(block, distances // len(group.rows)))
            scaled = torch.tensor(task.vectors[rows] * np.float32(-2), device=device)
            best = [
                tuple(torch.tensor(part[:, side], device=device) for part in (found.values, found.places))
                for side in range(2)
            ]
            for first, members in group.parts(*span, width):
                theirs = torch.tensor(standing.vectors[members], device=device)
                tile = torch.addmm(torch.tensor(standing.squares[members], device=device), scaled, theirs.T)
                best = [_joined(torch, side, -tile if far else tile, first) for far, side in enumerate(best)]
            for side, (values, places) in enumerate(best):
                found.values[:, side], found.places[:, side] = values.cpu().numpy(), places.cpu().numpy()


def _joined(torch: Any, side: tuple[Any, ...], tile: Any, first: int) -> tuple[Any, Any]:
    """Return the smallest values, with their columns, of a list and a block."""
    (values, columns), kept = side, side[0].shape[1]
    found, at = torch.topk(tile, min(kept, tile.shape[1]), dim=1, largest=False)
    values, columns = torch.cat([values, found], dim=1), torch.cat([columns, at + first], dim=1)
    values, order = torch.topk(values, kept, dim=1, largest=False, sorted=True)
    return values, torch.gather(columns, 1, order)


@contextmanager
def _whole_products(torch: Any) -> Iterator[None]:
    """Have float32 products made of float32, not of the shorter numbers that a process may have allowed itself."""
    with _PRECISION:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
