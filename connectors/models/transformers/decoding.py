"""The tokens of a batch of causal rows, one step at a time; rows that are finished leave it.

The library's `generate` computes finished rows until the last one ends, copies the whole cache in each step, and in
each call prepares the whole vocabulary for the comparison with stop strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transformers.cache_utils import DynamicCache, DynamicLayer

from connectors.interfaces import cancellation
from connectors.models.transformers.attention import ROOM, OwnLayer, SharedPrompts, grown
from connectors.models.transformers.loading import Loaded
from connectors.models.transformers.prefill import Prefilled, next_scores, prefill
from connectors.models.transformers.sampling import Sampler, SamplingRequest

if TYPE_CHECKING:
    import torch

LEAVING = 8
"""Finished rows leave when they are an eighth of a batch, because the others' part of the cache is copied."""


class GrowingLayer(DynamicLayer):  # type: ignore[misc]  # the library has no types here
    """Keys and values with free columns behind them, so that a step writes one column instead of a copy of all."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys = keys
        self.values = values
        self._room: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens, shape (rows, heads, tokens, size); return all."""
        before = self.keys.shape[-2]
        after = before + key_states.shape[-2]
        if self._room is None or after > self._room[0].shape[-2]:
            self._room = (grown(self.keys, after + ROOM), grown(self.values, after + ROOM))
        keys, values = self._room
        keys[..., before:after, :] = key_states
        values[..., before:after, :] = value_states
        self.keys = keys[..., :after, :]
        self.values = values[..., :after, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows only."""
        super().batch_select_indices(indices)
        self._room = None  # it has the other rows


def decode(
    loaded: Loaded, requests: Sequence[SamplingRequest], sampler: Sampler
) -> list[list[int]]:
    """Return the new tokens of each request, up to an end token, a stop string or its limit."""
    import torch

    written: list[list[int]] = [[] for _ in requests]
    rows = list(range(len(requests)))
    with torch.inference_mode():
        if loaded.shares_prompts:
            state, prompts = _shared(loaded, requests)
        else:
            state = _repeated(loaded, requests)
            prompts = None
        cache = state.cache
        ids = state.ids
        mask = state.mask
        logits = state.logits
        del state  # the loop replaces its tensors, which must not be kept alive
        arguments = {}
        if prompts is not None:
            arguments = {"prompts": prompts}
        finished = [False] * len(rows)
        while True:
            cancellation.raise_if_stopped()
            drawn = sampler.draw(ids, logits)
            for number, token in enumerate(drawn.tolist()):
                if not finished[number]:
                    row = rows[number]
                    written[row].append(token)
                    finished[number] = _is_finished(loaded, requests[row], written[row])
            if all(finished):
                return written
            ids = torch.cat([ids, drawn[:, None]], dim=1)
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            if LEAVING * sum(finished) >= len(rows):
                on = [number for number, is_finished in enumerate(finished) if not is_finished]
                indices = torch.tensor(on, device=ids.device)
                rows = [rows[number] for number in on]
                finished = [False] * len(rows)
                ids = ids[indices]
                mask = mask[indices]
                cache.batch_select_indices(indices)
                if prompts is not None:
                    prompts.select(on)
                sampler.select(on)
            logits = next_scores(loaded, ids[:, -1:], mask, cache, **arguments)


def _repeated(loaded: Loaded, requests: Sequence[SamplingRequest]) -> Prefilled:
    """Return the state of a batch whose rows each have the keys and values of their prompt."""
    state = prefill(loaded, [request.ids for request in requests])
    state.cache.layers = [GrowingLayer(layer.keys, layer.values) for layer in state.cache.layers]
    return state


def _shared(loaded: Loaded, requests: Sequence[SamplingRequest]) -> tuple[Prefilled, SharedPrompts]:
    """Return the state of a batch without its prompts' keys and values, and those, once a prompt."""
    import torch

    rows = [tuple(request.ids) for request in requests]
    distinct = list(dict.fromkeys(rows))
    prompt_of = [distinct.index(row) for row in rows]
    state = prefill(loaded, [list(row) for row in distinct])
    prompts = SharedPrompts(state.cache, state.mask, prompt_of)
    cache = DynamicCache()
    cache.layers = [OwnLayer(len(rows), (layer.keys, layer.values)) for layer in state.cache.layers]
    indices = torch.tensor(prompt_of, device=state.ids.device)
    own = Prefilled(cache, state.ids[indices], state.mask[indices], state.logits[indices])
    return own, prompts


def _is_finished(loaded: Loaded, request: SamplingRequest, tokens: Sequence[int]) -> bool:
    if tokens[-1] in loaded.eos or len(tokens) >= request.new:
        return True
    for stop in request.stop:
        # Each token but the first has a byte of it at least; one more, whose leading space a decoder may drop.
        last = tokens[-len(stop.encode()) - 1 :]
        if stop in loaded.tokenizer.decode(last, skip_special_tokens=True):
            return True
    return False
