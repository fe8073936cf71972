"""Sampling by row: each row of a batch draws from its own stream, after the library's filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.interfaces import cancellation
from connectors.models.transformers.options import HfOptions

if TYPE_CHECKING:
    import torch
    from transformers import LogitsProcessorList

TINY = 1e-30
"""Least value of which the logarithm is taken: that of 0 is infinite."""

CANDIDATES = 512
"""Likeliest tokens among which a nucleus is looked for before the whole vocabulary."""


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """One prompt as tokens.

    `position` in the call, `new`: maximum new tokens, `seed` of its stream (128 bits), `stop`: strings that end it.
    """

    position: int
    ids: list[int]
    new: int
    seed: int
    stop: tuple[str, ...] = ()


def filters(options: HfOptions) -> LogitsProcessorList:
    """Return the library's processors for temperature, top_k, top_p and repeated n-grams, in generation's order.

    Padding counts as a repetition only after a padding token, which only a finished row has.
    """
    import transformers as library

    chosen = library.LogitsProcessorList()
    if options.no_repeat_ngram_size:
        chosen.append(library.NoRepeatNGramLogitsProcessor(options.no_repeat_ngram_size))
    if options.temperature > 0:
        chosen.append(library.TemperatureLogitsWarper(float(options.temperature)))
        if options.top_k:
            chosen.append(library.TopKLogitsWarper(options.top_k))
        if options.top_p < 1:
            chosen.append(Nucleus(options.top_p))
    return chosen


class Nucleus:
    """A logits processor that keeps the likeliest tokens whose probabilities reach `top_p`, and all equal to the last.

    It selects the set of the library's TopPLogitsWarper, which sorts the whole vocabulary by torch: that takes longer
    than a step of a small model. Here all scores of a row are summed only if its CANDIDATES do not reach `top_p`.
    """

    def __init__(self, top_p: float) -> None:
        self._top_p = top_p

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the scores, shape (rows, vocabulary), with -infinity outside of the nucleus."""
        return scores.masked_fill(scores < self.least(scores), float("-inf"))

    def least(self, scores: torch.Tensor) -> torch.Tensor:
        """Return each row's least score in its nucleus, shape (rows, 1)."""
        total = scores.logsumexp(-1, keepdim=True)
        number = min(CANDIDATES, scores.shape[-1])
        best = likeliest(scores, number)
        least, reached = self._last(best, total)
        if number < scores.shape[-1] and not bool(reached.all()):
            flat = (~reached).nonzero().squeeze(-1)
            whole = likeliest(scores[flat], scores.shape[-1])
            least[flat] = self._last(whole, total[flat])[0]
        return least

    def _last(self, best: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the score of the last token of the nucleus among descending scores, and if they reach top_p."""
        probabilities = (best - total).exp()
        sums = probabilities.cumsum(-1)
        # A token belongs to it if those before it do not reach top_p: the likeliest always does.
        inside = (sums - probabilities < self._top_p).sum(-1, keepdim=True).clamp(min=1)
        return best.gather(-1, inside - 1), sums[:, -1] >= self._top_p


def likeliest(scores: torch.Tensor, number: int) -> torch.Tensor:
    """Return the greatest `number` scores of each row, shape (rows, number), in descending order."""
    import numpy as np
    import torch

    if scores.device.type != "cpu":
        return scores.topk(number).values
    # numpy sorts with vector instructions: all of a row take half of the time of torch's selection of 512 from it.
    ordered = np.sort(scores.numpy(), axis=-1)[:, ::-1][:, :number]
    return torch.from_numpy(ordered.copy())  # torch takes no negative strides


class Sampler:
    """The next token of each row of a batch, drawn by the options from the row's own stream."""

    def __init__(self, options: HfOptions, seeds: Sequence[int], device: torch.device) -> None:
        self.processors = filters(options)
        self._gumbel = Gumbel(seeds, device)
        if options.temperature > 0:
            self.processors.append(self._gumbel)  # the largest score after it is the draw

    def select(self, rows: Sequence[int]) -> None:
        """Continue with these rows alone."""
        self._gumbel.select(rows)

    def draw(self, ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Return the next token of each row, int64 of shape (rows,).

        `ids`: the row's tokens, shape (rows, tokens). `logits`: shape (rows, vocabulary).
        """
        drawn: torch.Tensor = self.processors(ids, logits.float()).argmax(-1)
        return drawn


class Gumbel:
    """A logits processor whose largest score is a draw of the row's distribution.

    Gumbel-max: argmax(log p + g), with g standard Gumbel, is distributed as p. Because g comes from a stream seeded by
    the request, a row's draw depends only on its own scores. Scores differ between batches by rounding, so completions
    are equal in float32 except for near-ties. In half precision many differ.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        import numpy as np
        import torch

        self._on_cpu = device.type == "cpu"
        if self._on_cpu:
            # numpy's ziggurat is three times as fast as torch's generator on a CPU.
            self._streams: list[np.random.Generator | torch.Generator] = [
                np.random.Generator(np.random.SFC64(seed)) for seed in seeds
            ]
        else:
            # 63 bits, which every generator of torch takes; texts of stored runs depend on this mask.
            self._streams = [
                torch.Generator(device).manual_seed(seed & (2**63 - 1)) for seed in seeds
            ]

    def select(self, rows: Sequence[int]) -> None:
        """Continue with the streams of these rows alone."""
        self._streams = [self._streams[row] for row in rows]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the scores, shape (rows, vocabulary), plus noise."""
        import torch

        noise = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
        for row, stream in enumerate(self._streams):
            if self._on_cpu:
                # Double precision: with a float's 23 bits, zeros occur and would select impossible tokens.
                noise[row] = torch.from_numpy(stream.standard_exponential(scores.shape[-1]))
            else:
                noise[row].exponential_(generator=stream)
        # -log(exponential) is standard Gumbel.
        return scores - noise.clamp(min=TINY).log_()


class RowLimit:
    """A stopping criterion: a row's maximum of new tokens after `start`."""

    def __init__(
        self, requests: Sequence[SamplingRequest], start: int, device: torch.device
    ) -> None:
        import torch

        self._lengths = torch.tensor([start + request.new for request in requests], device=device)

    def __call__(
        self, input_ids: torch.Tensor, _scores: torch.Tensor, **_kwargs: object
    ) -> torch.Tensor:
        """Return the finished rows, shape (rows,), bool; end the batch here if the process must stop."""
        cancellation.raise_if_stopped()
        return self._lengths <= input_ids.shape[1]
