"""Masked language models of the transformers library: they vary a text by filling masks, and write nothing new."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from connectors.interfaces.errors import FinalError
from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Cloze, Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.base.registry import refuse_unknown
from connectors.models.transformers.loading import Loaded, load
from connectors.models.transformers.model import Deliver, HfModel
from connectors.models.transformers.model_checks import Purpose
from connectors.models.transformers.options import HfOptions
from connectors.models.transformers.sampling import Request, nucleus

OPTIONS = (
    *("temperature", "top_p", "top_k", "max_tokens", "device", "dtype", "batch", "token_budget", "keep_loaded"),
    *("revision", "offline", "bin_weights", "trust_remote_code"),
)
"""Those of `HfOptions` that mean something here."""

SPECIAL_TOKENS = 2
"""Most models hold fewer texts than positions by these: RoBERTa's first two positions stand for padding."""


@dataclass(frozen=True, slots=True)
class Gaps(Request):
    """One text: places that may be masked, the share that is, how often."""

    free: tuple[int, ...] = ()
    mask: float = 0.5
    rounds: int = 1


@dataclass(slots=True)
class Row:
    """A text while it is varied, with a stream of its own."""

    gaps: Gaps
    ids: list[int]
    rng: np.random.Generator
    open: list[int] = field(default_factory=list)

    def blank(self, mask: int) -> None:
        """Mask so many of the tokens as are to be, one at least, in random order."""
        number = max(1, round(self.gaps.mask * len(self.gaps.free)))
        self.open = [self.gaps.free[place] for place in self.rng.permutation(len(self.gaps.free))[:number]]
        for place in self.open:
            self.ids[place] = mask


class FillMaskModel(HfModel):
    """A masked language model in this process; loaded when first asked, safe for threads.

    Each round masks a share of a text's tokens and draws them one at a time in random order, each given all that stand
    there by then (Hou et al. 2024). Masks and draws come from a stream seeded by the prompt, and every text has as many
    masks as its own length asks for, so that an answer is the same alone and in any batch, up to rounding.
    Decoding: temperature 1 over the whole vocabulary, unless options say otherwise; special tokens are never drawn.
    """

    connector = "fill_mask"
    purpose: ClassVar[Purpose] = "fill"

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> FillMaskModel:
        """Describe the model of a configuration, without opening it; ConfigError for wrong options or no folder."""
        refuse_unknown(spec, OPTIONS)
        options = HfOptions.read(replace(spec, options={"top_p": 1.0, **spec.options}))
        return cls(spec.name, spec.model, options)

    def _load(self) -> Loaded:
        loaded = load(self.name, self._folder, self._options, fills=True)
        if loaded.tokenizer.mask_token_id is None:
            raise FinalError(f"Model '{self.name}' has no mask token: it is no masked language model.")
        # Scores of the whole vocabulary stand at every token: they are what fills the memory.
        return replace(loaded, token_bytes=4 * loaded.model.config.vocab_size)

    def _answer(self, loaded: Loaded, prompts: Sequence[Prompt], deliver: Deliver) -> None:
        requests = []
        for position, prompt in enumerate(prompts):
            gaps = self._gaps(loaded, position, prompt) if isinstance(prompt, Cloze) else None
            if gaps is None:
                deliver(position, Completion("", "error", error="a fill_mask model fills gaps; it writes nothing new"))
            elif not gaps.free:
                deliver(position, Completion("", "error", error="the text has no token that could be masked"))
            else:
                requests.append(gaps)
        for batch in self._batches(loaded, requests):
            self._run(loaded, batch, deliver)

    def _gaps(self, loaded: Loaded, position: int, cloze: Cloze) -> Gaps:
        most = (self._options.max_tokens or cloze.max_tokens) + SPECIAL_TOKENS
        most = min(most, (loaded.context or most + SPECIAL_TOKENS) - SPECIAL_TOKENS)
        read = loaded.tokenizer(
            encodable(cloze.source), truncation=True, max_length=most, return_special_tokens_mask=True
        )
        free = tuple(place for place, special in enumerate(read["special_tokens_mask"]) if not special)
        seed = hashlib.sha256((self.identity + cloze.key).encode()).digest()
        drawn = int.from_bytes(seed[:16], "big")
        return Gaps(position, list(read["input_ids"]), 0, drawn, free, cloze.mask, cloze.rounds)

    def _generated(self, loaded: Loaded, batch: Sequence[Request]) -> list[Completion]:
        rows = [Row(one, list(one.ids), np.random.default_rng(one.seed)) for one in batch if isinstance(one, Gaps)]
        for turn in range(max(row.gaps.rounds for row in rows)):
            filled = [row for row in rows if turn < row.gaps.rounds]
            for row in filled:
                row.blank(loaded.tokenizer.mask_token_id)
            while filled := [row for row in filled if row.open]:
                for row, scores in zip(filled, self._scores(loaded, filled), strict=True):
                    row.ids[row.open.pop()] = self._drawn(scores, row.rng)
        return [self._varied(loaded, row) for row in rows]

    def _scores(self, loaded: Loaded, rows: Sequence[Row]) -> Any:
        """Return scores of the next open place of each row, shape (rows, vocabulary), on the CPU."""
        import torch

        width = max(len(row.ids) for row in rows)
        ids = torch.full((len(rows), width), loaded.pad)
        attention = torch.zeros((len(rows), width), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row.ids)] = torch.tensor(row.ids)
            attention[number, : len(row.ids)] = 1
        with torch.inference_mode():
            output = loaded.model(input_ids=ids.to(loaded.device), attention_mask=attention.to(loaded.device)).logits
        scores = output[torch.arange(len(rows)), [row.open[-1] for row in rows]].float().cpu().clone()
        scores[:, list(loaded.tokenizer.all_special_ids)] = float("-inf")
        options = self._options
        if options.temperature > 0:
            scores = scores / options.temperature
        if 0 < options.top_k < scores.shape[-1]:
            scores = scores.masked_fill(scores < scores.topk(options.top_k, dim=-1).values[:, -1:], float("-inf"))
        return nucleus(scores, options.top_p) if options.top_p < 1 else scores

    def _drawn(self, scores: Any, rng: np.random.Generator) -> int:
        """Return the largest score, after Gumbel noise unless the temperature is 0."""
        values = scores.numpy().astype(np.float64)
        if self._options.temperature > 0:
            values = values - np.log(np.maximum(rng.standard_exponential(len(values)), np.finfo(np.float64).tiny))
        return int(values.argmax())

    def _varied(self, loaded: Loaded, row: Row) -> Completion:
        text = loaded.tokenizer.decode([row.ids[place] for place in row.gaps.free], skip_special_tokens=True)
        return Completion(text.strip(), tokens_in=len(row.ids), tokens_out=len(row.gaps.free))
