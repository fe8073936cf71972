"""Attention of one new token a row to a prompt that several rows share, and to the row's own tokens.

Texts of one prompt have equal keys and values up to its end. On a CPU a step spends as long on reading them as on the
weights, so they are stored and read once a prompt. The two parts of a row are joined by their normalizers (Milakov and
Gimelshein 2018, Online normalizer calculation for softmax). Plain matrix products also take half of the time of
PyTorch's fused attention for a single query in bfloat16.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ROOM = 64
"""Free columns of a grown cache, which is copied once in this number of steps."""

_NAME = "shared_prompts"
"""Name of this attention among the library's."""
_FUSED = "sdpa"
_UNKNOWN = ("position_bias", "softcap", "s_aux")
"""Arguments that change attention in a way that only the library's own computes."""

Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Weighted sum of values, greatest score and sum of weights: shape (rows, pairs, heads of a pair, size, 1 and 1)."""


class SharedPrompts:
    """Keys and values of a batch's distinct prompts, for rows of which several may continue one prompt.

    `cache`: one row a prompt. `mask`: int64 of shape (prompts, columns), 0 where it is padded. `prompt_of`: the prompt
    of each row.
    """

    def __init__(self, cache: DynamicCache, mask: torch.Tensor, prompt_of: Sequence[int]) -> None:
        self._layers = [(layer.keys, layer.values) for layer in cache.layers]
        self._padded = (mask == 0)[:, None, None, :]
        self._prompt_of = list(prompt_of)
        self._arrange()

    def select(self, rows: Sequence[int]) -> None:
        """Continue with these rows alone, and with their prompts."""
        prompts = [self._prompt_of[row] for row in rows]
        left = sorted(set(prompts))
        self._prompt_of = [left.index(prompt) for prompt in prompts]
        if len(left) < len(self._padded):
            indices = torch.tensor(left, device=self._padded.device)
            self._padded = self._padded[indices]
            self._layers = [(keys[indices], values[indices]) for keys, values in self._layers]
        self._arrange()

    def attend(self, layer: int, query: torch.Tensor, scaling: float) -> Part:
        """Return the part of a layer's attention that falls on the prompts.

        `query`: shape (rows, pairs, heads of a pair, size).
        """
        keys, values = self._layers[layer]
        prompts, most = self._rows.shape
        _, pairs, group, size = query.shape
        # The queries of a prompt's rows are the rows of one product.
        asked = query[self._rows].transpose(1, 2).reshape(prompts, pairs, most * group, size)
        parts = attend_to(asked, keys, values, self._padded, scaling)

        def by_row(part: torch.Tensor) -> torch.Tensor:
            by_slot = part.reshape(prompts, pairs, most, group, -1).transpose(1, 2)
            return by_slot.reshape(prompts * most, pairs, group, -1)[self._slots]

        total, greatest, weights = parts
        return by_row(total), by_row(greatest), by_row(weights)

    def _arrange(self) -> None:
        """Give each row a slot in a table with a line for each prompt."""
        lines: list[list[int]] = [[] for _ in range(len(self._padded))]
        for row, prompt in enumerate(self._prompt_of):
            lines[prompt].append(row)
        most = max(len(line) for line in lines)
        slots = [0] * len(self._prompt_of)
        for prompt, line in enumerate(lines):
            for column, row in enumerate(line):
                slots[row] = prompt * most + column
        # A free slot computes the first row once more, which is not read.
        filled = [line + [0] * (most - len(line)) for line in lines]
        self._rows = torch.tensor(filled, device=self._padded.device)
        self._slots = torch.tensor(slots, device=self._padded.device)


class OwnLayer(DynamicLayer):  # type: ignore[misc]  # the library has no types here
    """Keys and values of the tokens that rows have beyond their prompts of `columns` columns.

    Attention gets the free columns behind them as well, which the mask excludes: a matrix product would copy a part.
    `like`: states of the prompts, shape (prompts, pairs, columns, size).
    """

    def __init__(self, rows: int, like: tuple[torch.Tensor, torch.Tensor]) -> None:
        super().__init__()
        self.lazy_initialization(*like)
        self._columns = int(like[0].shape[-2])
        self._tokens = 0
        self.keys, self.values = (_room(states, rows, ROOM) for states in like)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens, shape (rows, pairs, tokens, size); return all and the free columns."""
        after = self._tokens + key_states.shape[-2]
        width = self._width(after)
        if width > self.keys.shape[-2]:
            self.keys = grown(self.keys, width)
            self.values = grown(self.values, width)
        self.keys[..., self._tokens : after, :] = key_states
        self.values[..., self._tokens : after, :] = value_states
        self._tokens = after
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Return the number of columns with those of the prompts."""
        return self._columns + self._tokens

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of columns that attention gets with the next tokens, and the position of the first."""
        return self._width(self._tokens + query_length), self._columns

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows only."""
        self.keys = self.keys[indices]
        self.values = self.values[indices]

    def _width(self, tokens: int) -> int:
        width = int(self.keys.shape[-2])
        if tokens <= width:
            return width
        return tokens + ROOM


def share_prompts(model: PreTrainedModel) -> bool:
    """Let a causal model on a CPU attend to shared prompts; return whether it can.

    A model can that leaves its attention to the library and hands it the arguments of a call.
    """
    if not model._supports_attention_backend or model.config._attn_implementation != _FUSED:
        return False
    parameters = inspect.signature(model.forward).parameters.values()
    if model.device.type != "cpu" or all(entry.kind != entry.VAR_KEYWORD for entry in parameters):
        return False
    model.set_attn_implementation(_NAME)
    visited: set[int] = set()
    with torch.inference_mode():
        model(input_ids=torch.tensor([[0]]), visited=visited)
    if visited == set(range(model.config.get_text_config().num_hidden_layers)):
        return True
    model.set_attn_implementation(_FUSED)
    return False


def attend_to(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    excluded: torch.Tensor | None,
    scaling: float,
) -> Part:
    """Return the attention of queries to columns as parts, which can be joined with those of other columns.

    `query`: shape (rows, pairs, queries, size). `excluded`: columns that do not count, (rows, 1, 1, columns).
    """
    scores = (query @ keys.transpose(-1, -2)).float().mul_(scaling)
    if excluded is not None:
        scores.masked_fill_(excluded, float("-inf"))
    greatest = scores.amax(-1, keepdim=True)
    weights = scores.sub_(greatest).exp_()
    total = (weights.to(values.dtype) @ values).float()
    return total, greatest, weights.sum(-1, keepdim=True)


def _attention(  # noqa: PLR0913  # as the library calls it
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    prompts: SharedPrompts | None = None,
    visited: set[int] | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return what the library's fused attention does, up to rounding: shape (rows, tokens, heads, size), no weights.

    `query`: shape (rows, heads, tokens, size). `key`, `value`: (rows, pairs, columns, size). `attention_mask`: True
    where a column counts, (rows, 1, tokens, columns); None: all do.
    """
    if visited is not None and all(kwargs.get(name) is None for name in _UNKNOWN):
        visited.add(int(module.layer_idx))
    if prompts is None:
        fused: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
        return fused
    rows, heads, _, size = query.shape
    if scaling is None:
        scaling = size**-0.5
    # The heads that share keys and values are the rows of one product: nothing is repeated.
    grouped = query.reshape(rows, key.shape[1], -1, size)
    excluded = None
    if attention_mask is not None:
        excluded = ~attention_mask
    own, own_greatest, own_weights = attend_to(grouped, key, value, excluded, scaling)
    shared, greatest, weights = prompts.attend(int(module.layer_idx), grouped, scaling)
    both = torch.maximum(own_greatest, greatest)
    own_share = (own_greatest - both).exp_()
    share = (greatest - both).exp_()
    total = (own * own_share).addcmul_(shared, share)
    total /= (own_weights * own_share).addcmul_(weights, share)
    return total.to(query.dtype).reshape(rows, 1, heads, -1), None


def _room(states: torch.Tensor, rows: int, width: int) -> torch.Tensor:
    _, pairs, _, size = states.shape
    # Zeros: an excluded column that is infinite would still spoil a product.
    room: torch.Tensor = states.new_zeros(rows, pairs, width, size)
    return room


def grown(states: torch.Tensor, width: int) -> torch.Tensor:
    """Return states, shape (rows, pairs, columns, size), with free columns behind them up to `width`."""
    room = _room(states, states.shape[0], width)
    room[..., : states.shape[-2], :] = states
    return room


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)
