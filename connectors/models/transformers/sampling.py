"""Sampling by row: each row of a batch draws from its own stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connectors.models.transformers.options import HfOptions

CANDIDATES = 1024
"""Number of likeliest tokens sorted for top_p; all are sorted if these do not suffice."""

TINY = 1e-30


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """One prompt as tokens.

    `position` in the call, `new`: maximum new tokens, `seed` of its stream (128 bits).
    """

    position: int
    ids: list[int]
    new: int
    seed: int


class RowSampler:
    """A logits processor whose largest score is a draw of the row's distribution.

    Gumbel-max: argmax(log p + g), with g standard Gumbel, is distributed as p. Because g comes from a stream seeded by
    the request, a row's draw depends only on its own scores. Scores differ between batches by rounding, so completions
    are equal in float32 except for near-ties, and often, not always, in half precision. temperature 0 adds no noise.
    Penalties count the prompt if the completion follows it (causal models), as in transformers, but never the padding.
    """

    def __init__(
        self, options: HfOptions, requests: Sequence[SamplingRequest], device: Any, after_prompt: bool
    ) -> None:
        self._options = options
        self._prompts = [request.ids if after_prompt else [] for request in requests]
        self._noise = _Noise([request.seed for request in requests], device) if options.temperature > 0 else None
        self._seen: Any = None
        size = options.no_repeat_ngram_size
        self._repeats = [_Repeats(size) for _ in requests] if size else []
        self._steps = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return scores, shape (rows, vocabulary); the largest per row is the next token."""
        options = self._options
        if options.repetition_penalty != 1:
            scores = self._penalised(input_ids, scores)
        if self._repeats:
            scores = self._without_repeats(input_ids, scores)
        self._steps += 1
        if self._noise is None:
            return scores
        scores = scores / options.temperature
        if 0 < options.top_k < scores.shape[-1]:
            threshold = scores.topk(options.top_k, dim=-1).values[:, -1:]
            scores = scores.masked_fill(scores < threshold, float("-inf"))
        if options.top_p < 1:
            scores = nucleus(scores, options.top_p)
        return scores - self._noise.log_exponential(scores.shape[-1])

    def _penalised(self, input_ids: Any, scores: Any) -> Any:
        import torch

        if self._seen is None:
            self._seen = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
            for row, ids in enumerate(self._prompts):
                self._seen[row, torch.tensor(ids, device=scores.device, dtype=torch.long)] = True
        if self._steps:
            self._seen.scatter_(1, input_ids[:, -1:], True)
        penalty = self._options.repetition_penalty
        return torch.where(self._seen, torch.where(scores > 0, scores / penalty, scores * penalty), scores)

    def _without_repeats(self, input_ids: Any, scores: Any) -> Any:
        latest = input_ids[:, -1].tolist()
        scores = scores.clone()
        for row, repeats in enumerate(self._repeats):
            for token in [latest[row]] if self._steps else self._prompts[row]:
                repeats.add(token)
            if banned := repeats.banned():
                scores[row, banned] = float("-inf")
        return scores


def nucleus(scores: Any, top_p: float) -> Any:
    """Mask all but the fewest likeliest tokens with total probability `top_p`.

    At least one token remains; the others get -inf. Only the likeliest 1,024 tokens are sorted if they suffice: a
    vocabulary has 30 to 250 thousand.
    """
    total = scores.logsumexp(dim=-1, keepdim=True)
    size = min(CANDIDATES, scores.shape[-1])
    while True:
        likeliest = scores.topk(size, dim=-1).values
        reached = (likeliest - total).exp().cumsum(dim=-1)
        if size == scores.shape[-1] or bool((reached[:, -1] >= top_p).all()):
            break
        size = scores.shape[-1]
    # A token remains if its predecessors have not reached top_p.
    count = (reached < top_p).sum(dim=-1, keepdim=True).clamp(max=size - 1)
    return scores.masked_fill(scores < likeliest.gather(-1, count), float("-inf"))


class _Noise:
    """One stream of standard exponential numbers per row."""

    def __init__(self, seeds: Sequence[int], device: Any) -> None:
        import numpy as np
        import torch

        self._on_cpu = device.type == "cpu"
        if self._on_cpu:
            # numpy's ziggurat is three times as fast as torch's generator on a CPU.
            self._streams: list[Any] = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
        else:
            self._streams = [torch.Generator(device).manual_seed(seed & (2**63 - 1)) for seed in seeds]
        self._device = device
        self._values: Any = None

    def log_exponential(self, size: int) -> Any:
        """Return log(e), e standard exponential, shape (rows, size): minus Gumbel noise."""
        import numpy as np
        import torch

        if self._values is None:
            self._values = torch.empty((len(self._streams), size), dtype=torch.float32, device=self._device)
            self._row = np.empty(size)
        if self._on_cpu:
            table = self._values.numpy()
            for row, stream in enumerate(self._streams):
                # Double precision: with a float's 23 bits, zeros occur and would select impossible tokens.
                stream.standard_exponential(out=self._row)
                table[row] = self._row
        else:
            for row, stream in enumerate(self._streams):
                self._values[row].exponential_(generator=stream)
        return self._values.clamp(min=TINY).log_()


class _Repeats:
    """The n-grams of one row, and the tokens that would repeat one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ids: list[int] = []
        self._after: dict[tuple[int, ...], set[int]] = {}

    def add(self, token: int) -> None:
        self._ids.append(token)
        if len(self._ids) >= self._size:
            gram = tuple(self._ids[-self._size :])
            self._after.setdefault(gram[:-1], set()).add(gram[-1])

    def banned(self) -> list[int]:
        if len(self._ids) < self._size - 1:
            return []
        prefix = tuple(self._ids[len(self._ids) - self._size + 1 :])
        return sorted(self._after.get(prefix, ()))


class RowEnd:
    """A stopping criterion per row: maximum tokens, and stop strings.

    `ends`: number of new tokens at the stop string, for each row that has one.
    """

    def __init__(self, requests: Sequence[SamplingRequest], stop: Sequence[str], tokenizer: Any, start: int) -> None:
        self._limits = [request.new for request in requests]
        self._stop, self._tokenizer, self._start = stop, tokenizer, start
        # A token has at least one byte, a character at most four; extra room for joined pieces.
        self._window = max((len(text.encode()) for text in stop), default=0) + 4
        self.ends: dict[int, int] = {}
        self._tensor: Any = None

    def __call__(self, input_ids: Any, _scores: Any, **_kwargs: Any) -> Any:
        """Return the finished rows, shape (rows,), bool."""
        import torch

        if self._tensor is None:
            self._tensor = torch.tensor(self._limits, device=input_ids.device)
        count = input_ids.shape[1] - self._start
        finished = self._tensor <= count
        if self._stop:
            self._find_stops(input_ids[:, max(self._start, input_ids.shape[1] - self._window) :], count)
            if self.ends:
                finished[list(self.ends)] = True
        return finished

    def _find_stops(self, tail: Any, count: int) -> None:
        for row, text in enumerate(self._tokenizer.batch_decode(tail, skip_special_tokens=True)):
            if row not in self.ends and any(stop in text for stop in self._stop):
                self.ends[row] = count
