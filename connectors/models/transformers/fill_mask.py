"""Masked language models of transformers: they vary a text by filling masks.

They do not write new texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from connectors.interfaces import cancellation
from connectors.interfaces.errors import FinalError
from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Cloze, Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.base.options import read_options, refuse_unknown
from connectors.models.transformers.loading import Loaded
from connectors.models.transformers.model import HfModel
from connectors.models.transformers.model_checks import Purpose
from connectors.models.transformers.options import HfOptions
from connectors.models.transformers.prefill import pad
from connectors.models.transformers.sampling import SamplingRequest, filters

if TYPE_CHECKING:
    import torch

OPTIONS = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "device",
    "dtype",
    "batch",
    "keep_loaded",
    "revision",
)
"""The options of `HfOptions` that apply here."""

SPECIAL_TOKENS = 2
"""Most models have fewer text tokens than positions by this number: RoBERTa reserves two for padding."""


@dataclass(frozen=True, slots=True)
class Gaps(SamplingRequest):
    """A text to vary: the positions that can be masked, the share to mask, the rounds."""

    free: tuple[int, ...] = ()
    mask: float = 0.5
    rounds: int = 1


@dataclass(slots=True)
class MaskedText:
    """A text during its variation, with its own random stream."""

    gaps: Gaps
    ids: list[int]
    rng: np.random.Generator
    open: list[int] = field(default_factory=list)

    def blank(self, mask: int) -> None:
        """Mask the configured share of tokens, at least one, in random order."""
        number = max(1, round(self.gaps.mask * len(self.gaps.free)))
        self.open = [
            self.gaps.free[position]
            for position in self.rng.permutation(len(self.gaps.free))[:number]
        ]
        for position in self.open:
            self.ids[position] = mask


class FillMaskModel(HfModel):
    """A masked language model in this process, loaded on first use. Thread-safe.

    Each round masks a share of a text's tokens and draws them one by one in random order, each given all current tokens
    (Hou et al. 2024). Masks and draws come from a stream seeded by the prompt, and the number of masks depends only on
    the text's length. Therefore a completion is the same alone and in any batch, up to rounding. Decoding: temperature
    1 over the whole vocabulary by default; special tokens are never drawn.
    """

    connector = "fill_mask"
    purpose: ClassVar[Purpose] = "fill"

    @classmethod
    def options_of(cls, spec: ModelSpec) -> HfOptions:
        """Return the typed options of a configuration; ConfigError if one is invalid."""
        refuse_unknown(spec, OPTIONS)
        return read_options(HfOptions, replace(spec, options={"top_p": 1.0, **spec.options}))

    def _load(self) -> Loaded:
        loaded = super()._load()
        if loaded.tokenizer.mask_token_id is None:
            raise FinalError(f"Model '{self.name}' has no mask token. Use a masked language model.")
        # The scores of the whole vocabulary at every token dominate the memory.
        return replace(loaded, token_bytes=4 * loaded.model.config.vocab_size)

    def _request(self, loaded: Loaded, position: int, prompt: Prompt) -> Gaps | Completion:
        if not isinstance(prompt, Cloze):
            return Completion("", "error", error="a fill_mask model only fills gaps")
        limit = (self._options.max_tokens or prompt.max_tokens) + SPECIAL_TOKENS
        limit = min(limit, (loaded.context or limit + SPECIAL_TOKENS) - SPECIAL_TOKENS)
        tokens = loaded.tokenizer(
            encodable(prompt.source),
            truncation=True,
            max_length=limit,
            return_special_tokens_mask=True,
        )
        free = tuple(
            index for index, special in enumerate(tokens["special_tokens_mask"]) if not special
        )
        if not free:
            return Completion("", "error", error="the text has no token that can be masked")
        seed = prompt.stream_seed(self.identity)
        ids = list(tokens["input_ids"])
        return Gaps(position, ids, 0, seed, free=free, mask=prompt.mask, rounds=prompt.rounds)

    def _generate(self, loaded: Loaded, batch: Sequence[SamplingRequest]) -> list[Completion]:
        rows = [
            MaskedText(gaps, list(gaps.ids), np.random.default_rng(gaps.seed))
            for gaps in batch
            if isinstance(gaps, Gaps)
        ]
        # Rows take turns: the positions of one row depend on each other, those of different rows share a batch.
        for turn in range(max(row.gaps.rounds for row in rows)):
            filled = [row for row in rows if turn < row.gaps.rounds]
            for row in filled:
                row.blank(loaded.tokenizer.mask_token_id)
            while filled := [row for row in filled if row.open]:
                cancellation.raise_if_stopped()
                for row, scores in zip(filled, self._scores(loaded, filled), strict=True):
                    row.ids[row.open.pop()] = self._drawn(scores, row.rng)
        return [self._variation(loaded, row) for row in rows]

    def _scores(self, loaded: Loaded, rows: Sequence[MaskedText]) -> torch.Tensor:
        """Return scores of each row's next open position, shape (rows, vocabulary)."""
        import torch

        ids, mask = pad(loaded, [row.ids for row in rows], on_right=True)
        with torch.inference_mode():
            output = loaded.model(input_ids=ids, attention_mask=mask).logits
        scores = (
            output[torch.arange(len(rows)), [row.open[-1] for row in rows]].float().cpu().clone()
        )
        scores[:, list(loaded.tokenizer.all_special_ids)] = float("-inf")
        return filters(self._options)(ids, scores)

    def _drawn(self, scores: torch.Tensor, rng: np.random.Generator) -> int:
        """Return the index of the largest score, with Gumbel noise if temperature > 0."""
        values = scores.numpy().astype(np.float64)
        if self._options.temperature > 0:
            # -log(exponential) is standard Gumbel; the least float keeps the logarithm of a drawn 0 finite.
            exponential = rng.standard_exponential(len(values))
            values = values - np.log(np.maximum(exponential, np.finfo(np.float64).tiny))
        return int(values.argmax())

    def _variation(self, loaded: Loaded, row: MaskedText) -> Completion:
        text = loaded.tokenizer.decode(
            [row.ids[position] for position in row.gaps.free], skip_special_tokens=True
        )
        return Completion(text.strip(), tokens_in=len(row.ids), tokens_out=len(row.gaps.free))
