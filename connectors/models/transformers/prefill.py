"""Keys and values of a batch's prompts, each distinct part computed once.

Most of the time of a short text is spent on its prompt. Prompts of equal tokens are computed once, the beginning that
all prompts of a batch share is computed once, and the rest in groups of similar length. The result is the cache of a
batch padded on the left, as if all rows had been computed together.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from connectors.models.transformers.loading import Loaded

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache

MIN_SHARED = 16
"""Least number of shared tokens that are computed apart: fewer do not pay for a pass through the model."""
PASS_TOKENS = 32
"""Cost of a pass through the model, in tokens: reading the weights takes as long as computing this number."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The state of a batch after its prompts.

    `ids`, `mask`: int64 of shape (rows, tokens), padded on the left. `logits`: of the next token, shape (rows,
    vocabulary).
    """

    cache: DynamicCache
    ids: torch.Tensor
    mask: torch.Tensor
    logits: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of one row of a cache: columns `start` to `stop`."""

    cache: DynamicCache
    row: int
    start: int
    stop: int


def can_prefill(loaded: Loaded) -> bool:
    """Return True for a causal model whose caches can be repeated, cut and joined, and which needs only tokens.

    Others are left to the library: sliding windows, states of recurrent layers, positions that depend on the longest
    row, inputs of their own.
    """
    from transformers import DynamicCache, GenerationMixin
    from transformers.cache_utils import DynamicLayer

    model = loaded.model
    if loaded.seq2seq:
        return False
    # A model that prepares inputs in another way has further ones.
    prepare = type(model).prepare_inputs_for_generation
    if prepare is not GenerationMixin.prepare_inputs_for_generation:
        return False
    accepted = inspect.signature(model.forward).parameters
    if not {"past_key_values", "position_ids", "logits_to_keep"} <= set(accepted):
        return False
    settings = model.generation_config
    if settings.suppress_tokens or settings.begin_suppress_tokens or settings.forced_bos_token_id:
        return False
    config = model.config.get_text_config()
    scaling = getattr(config, "rope_parameters", None) or {}
    # Rotations that change with the length of the longest row; local layers that count columns, not positions.
    if scaling.get("rope_type", "default") in ("dynamic", "longrope"):
        return False
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def prefill(loaded: Loaded, rows: Sequence[list[int]]) -> Prefilled:
    """Compute the prompts `rows`; call it within inference mode."""
    import torch

    distinct = list(dict.fromkeys(tuple(row) for row in rows))
    shared = _shared(distinct)
    root = None
    if shared:
        root, _ = _forward(loaded, [distinct[0][:shared]], [])
    parts: dict[tuple[int, ...], _Part] = {}
    logits: dict[tuple[int, ...], torch.Tensor] = {}
    for group in _groups(distinct, shared):
        longest = max(len(row) for row in group)
        new = longest - shared
        past = []
        if root is not None:
            # A shorter row takes less of the shared beginning and computes as many tokens as the longest: its columns
            # stay without a gap, which not every model's positions would bear.
            past = [_Part(root, 0, 0, max(0, len(row) - new)) for row in group]
        cache, last = _forward(loaded, [row[-new:] for row in group], past)
        for number, row in enumerate(group):
            parts[row] = _Part(cache, number, longest - len(row), longest)
            logits[row] = last[number]
    keys = [tuple(row) for row in rows]
    ids, mask = pad(loaded, rows, on_right=False)
    cache = _joined([parts[key] for key in keys], ids.shape[1])
    return Prefilled(cache, ids, mask, torch.stack([logits[key] for key in keys]))


def pad(
    loaded: Loaded, rows: Sequence[Sequence[int]], on_right: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids of equal length and their attention mask, both int64 of shape (rows, tokens)."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    side = "left"  # a causal model continues from the last position
    if on_right:
        side = "right"
    tensors = [torch.tensor(ids) for ids in rows]
    ids = pad_sequence(tensors, batch_first=True, padding_value=loaded.pad, padding_side=side)
    mask = pad_sequence(
        [torch.ones_like(row) for row in tensors], batch_first=True, padding_side=side
    )
    return ids.to(loaded.device), mask.to(loaded.device)


def _shared(rows: Sequence[tuple[int, ...]]) -> int:
    """Return the length of the beginning that all rows share, 0 if it is not worth a separate pass."""
    if len(rows) < 2:
        return 0
    # At least one token of each row is computed with its group, which gives the scores of the next one.
    columns = zip(*rows, strict=False)  # as many as the shortest row has
    equal = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    length = min(equal, min(len(row) for row in rows) - 1)
    if length < MIN_SHARED:
        return 0
    return length


def _groups(rows: Sequence[tuple[int, ...]], shared: int) -> list[list[tuple[int, ...]]]:
    """Divide rows into groups of similar length, so that passes and padding together cost least."""
    ordered = sorted(rows, key=len)
    # cheapest[n]: cost of the n shortest rows, and where their last group begins.
    cheapest = [(0, 0)]
    for stop in range(1, len(ordered) + 1):
        longest = len(ordered[stop - 1]) - shared
        costs = (
            (cheapest[start][0] + PASS_TOKENS + (stop - start) * longest, start)
            for start in range(stop)
        )
        cheapest.append(min(costs))
    groups = []
    stop = len(ordered)
    while stop:
        start = cheapest[stop][1]
        groups.append(ordered[start:stop])
        stop = start
    return groups


def _forward(
    loaded: Loaded, rows: Sequence[Sequence[int]], past: Sequence[_Part]
) -> tuple[DynamicCache, torch.Tensor]:
    """Compute tokens after their part of a cache; return the whole cache and the scores of the next token."""
    import torch
    from transformers import DynamicCache

    ids, mask = pad(loaded, rows, on_right=False)
    cache = DynamicCache(config=loaded.model.config)
    if past:
        lengths = [part.stop - part.start for part in past]
        width = max(lengths)
        cache = _joined(past, width)
        columns = torch.arange(width, device=ids.device)
        before = columns >= width - torch.tensor(lengths, device=ids.device)[:, None]
        mask = torch.cat([before.to(mask.dtype), mask], dim=1)
    return cache, next_scores(loaded, ids, mask, cache)


def next_scores(
    loaded: Loaded, ids: torch.Tensor, mask: torch.Tensor, cache: DynamicCache, **arguments: object
) -> torch.Tensor:
    """Compute tokens after a cache, which takes them; return the scores of the next one, shape (rows, vocabulary).

    `mask` covers the columns of the cache and of `ids`. Padding on the left does not move the positions. `arguments`:
    those of the attention.
    """
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    output = loaded.model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions[:, -ids.shape[1] :],
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
        **arguments,
    )
    scores: torch.Tensor = output.logits[:, -1]
    return scores


def _joined(parts: Sequence[_Part], width: int) -> DynamicCache:
    """Return a cache of these parts as its rows, moved to the right end of `width` columns."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for number in range(len(parts[0].cache.layers)):
        layers = [part.cache.layers[number] for part in parts]
        keys = _aligned([layer.keys for layer in layers], parts, width)
        values = _aligned([layer.values for layer in layers], parts, width)
        cache.update(keys, values, number)
    return cache


def _aligned(states: Sequence[Any], parts: Sequence[_Part], width: int) -> torch.Tensor:
    _, heads, _, size = states[0].shape
    joined: torch.Tensor = states[0].new_zeros(len(parts), heads, width, size)
    for row, (state, part) in enumerate(zip(states, parts, strict=True)):
        length = part.stop - part.start
        if length:
            joined[row, :, width - length :] = state[part.row, :, part.start : part.stop]
    return joined
