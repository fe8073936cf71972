"""Proposals from a GPU through torch; `settling` measures them like all others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tasks.private.nearest.exact import CandidateArrays
    from tasks.private.nearest.proposals import Proposals, Spans, Task

LARGE: Final = 10**11
"""Multiplications from which on a search takes longer than loading torch."""
ROWS: Final = 8192
SHARE: Final = 16
"""A block's distances use 1/SHARE of the free device memory; topk needs several times as much."""
ELSEWHERE: Final = 2**24
"""Distances of a block if the device is the CPU, as in tests."""
_PRECISION: Final = Lock()


@cache
def exists() -> bool:
    """Return whether torch is installed and finds a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def propose(task: Task, arrays: CandidateArrays, spans: Spans, proposed: Proposals, block: int) -> None:
    """Fill `proposed` as `tasks.private.nearest.blocks.propose` does."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    distances = torch.cuda.mem_get_info()[0] // (4 * SHARE) if device.type == "cuda" else ELSEWHERE
    with torch.inference_mode(), _full_precision(torch):
        for span, rows, group in task.spans(spans):
            block_proposals = proposed.of(rows)
            width = max(1, min(block, distances // len(group.rows)))
            scaled = torch.tensor(task.vectors[rows] * np.float32(-2), device=device)
            best = [
                tuple(
                    torch.tensor(part[:, side], device=device)
                    for part in (block_proposals.values, block_proposals.indices)
                )
                for side in range(2)
            ]
            for first, members in group.parts(*span, width):
                theirs = torch.tensor(arrays.vectors[members], device=device)
                tile = torch.addmm(torch.tensor(arrays.squares[members], device=device), scaled, theirs.T)
                best = [_joined(torch, side, -tile if far else tile, first) for far, side in enumerate(best)]
            for side, (values, indices) in enumerate(best):
                block_proposals.values[:, side], block_proposals.indices[:, side] = (
                    values.cpu().numpy(),
                    indices.cpu().numpy(),
                )


def _joined(torch: Any, side: tuple[Any, ...], tile: Any, first: int) -> tuple[Any, Any]:
    """Return the smallest values of a list and a block, with their columns."""
    (values, columns), length = side, side[0].shape[1]
    smallest, at = torch.topk(tile, min(length, tile.shape[1]), dim=1, largest=False)
    values, columns = torch.cat([values, smallest], dim=1), torch.cat([columns, at + first], dim=1)
    values, order = torch.topk(values, length, dim=1, largest=False, sorted=True)
    return values, torch.gather(columns, 1, order)


@contextmanager
def _full_precision(torch: Any) -> Iterator[None]:
    """Compute float32 products in full precision, regardless of process settings."""
    with _PRECISION:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
