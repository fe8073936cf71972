"""all-MiniLM-L6-v2 in plain torch, the encoder `embedded`.

sentence-transformers computes the same vectors, but every process that embeds would import its 3,500 further modules:
four times the processor time and twice the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.embedders.windows import join_windows
from connectors.interfaces.embedding import Matrix
from connectors.interfaces.threads import compute

if TYPE_CHECKING:
    import torch

DIMENSION = 384
HEADS = 12
LAYERS = 6
CPU_TOKENS = 512
GPU_TOKENS = 65536
"""Tokens per batch, including padding. Small batches of similar length are fastest on a CPU."""
PACKS = (64, 512)
"""Tokens of a pack, including those that fill it. The largest holds the longest text of the model."""
CHECKED = (2, 7, 15, 16, 17, 24, 33, 40)
"""Tokens of the texts of the self-check of packs: below, at and above the width of a vector register."""


CHARACTERS_PER_TOKEN = 16
"""Characters of a text, per token of the limit, that are enough to decide whether it is longer."""


def cut_texts(folder: Path, texts: Sequence[str], max_length: int) -> list[bool]:
    """Return which texts have more than `max_length` tokens, of which the encoder reads the first; loads no weights."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length)
    starts = [text[: CHARACTERS_PER_TOKEN * max_length] for text in texts]
    return [bool(encoding.overflowing) for encoding in tokenizer.encode_batch(starts)]


def packs(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield positions of texts whose `lengths` sum to at most `most`, long ones with short ones."""
    order = deque(sorted(range(len(lengths)), key=lambda position: lengths[position]))
    while order:
        pack = [order.pop()]
        room = most - lengths[pack[0]]
        while order and lengths[order[-1]] <= room:
            pack.append(order.pop())
            room -= lengths[pack[-1]]
        while order and lengths[order[0]] <= room:
            pack.append(order.popleft())
            room -= lengths[pack[-1]]
        yield pack


def _attention(parts: Sequence[torch.Tensor], mask: torch.Tensor | None = None) -> torch.Tensor:
    """Return the attention of queries, keys and values, each of shape (texts, tokens, 384), without padding."""
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in parts)
    attended = scaled_dot_product_attention(query, key, value, mask)
    return attended.transpose(1, 2).flatten(2)


class MiniLm:
    """Weights and tokenizer of a folder. Not thread-safe. `has_windows`: read whole texts, in windows of the limit."""

    def __init__(
        self, folder: Path, device: torch.device, max_length: int, has_windows: bool = False
    ) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        self.device = device
        self.has_windows = has_windows
        self.weights = load_file(folder / "model.safetensors", device=str(device))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(max_length)
        self.tokenizer.no_padding()

    def encode(self, texts: Sequence[str], alone: bool) -> Matrix:
        """Return vectors of length 1, shape (texts, 384); with `alone`, none depends on another text.

        On a CPU, each batch has one core: the bits do not depend on the number of threads.
        """
        encodings = self.tokenizer.encode_batch(list(texts))
        if not self.has_windows:
            return self._encode([encoding.ids for encoding in encodings], alone)
        windows = [[part.ids for part in (first, *first.overflowing)] for first in encodings]
        vectors = self._encode([ids for of_text in windows for ids in of_text], alone)
        return join_windows(vectors, [[len(ids) for ids in of_text] for of_text in windows])

    def _encode(self, tokens: Sequence[Sequence[int]], alone: bool) -> Matrix:
        """Return the vectors of token lists, shape (token lists, 384)."""
        import numpy as np

        vectors = np.empty((len(tokens), DIMENSION), dtype=np.float32)
        sizes: tuple[int, ...] = ()
        if alone and self.device.type == "cpu":
            sizes = self._pack_sizes

        def work(batch: list[int]) -> Matrix:
            rows = [tokens[position] for position in batch]
            return self._pack_vectors(rows, sizes) if sizes else self._vectors(rows)

        batches = self._batches(tokens)
        if sizes:
            batches = packs([len(row) for row in tokens], sizes[-1])
        elif alone:
            batches = ([position] for position in range(len(tokens)))
        results: Iterable[tuple[list[int], Matrix]] = ((batch, work(batch)) for batch in batches)
        if self.device.type == "cpu":
            results = compute(work, batches)
        # In order of completion: each batch has the positions of its texts.
        for batch, rows in results:
            vectors[batch] = rows
        return vectors

    @cached_property
    def _pack_sizes(self) -> tuple[int, ...]:
        """Return `PACKS` if a text has the same bits at each place of a pack, else (): embed one text at a time.

        BLAS libraries choose a kernel by the shape of a product, and a kernel may treat the edges of a matrix
        differently. It computes all numbers alike, so made-up texts show it, and the result depends on no record.
        """
        # On a thread of the pool: its operations have one core, as those of the texts.
        # No log line: it would show that there is a record without a stored vector.
        ((sizes, is_exact),) = compute(self._is_exact, [PACKS])
        return sizes if is_exact else ()

    def _is_exact(self, sizes: Sequence[int]) -> bool:
        """Return True if one layer gives each made-up text the same bits in packs of all sizes, at all places."""
        import torch

        vocabulary = self.tokenizer.get_vocab_size()
        texts = [
            [(7919 * (length + index)) % vocabulary for index in range(length)]
            for length in CHECKED
        ]
        expected = [self._pack_states([text], sizes, layers=1)[0] for text in texts]
        for size in sizes:
            # One token at each place of the pack, then texts among others in two orders.
            copies = torch.stack(self._pack_states([[vocabulary - 1]] * size, sizes, layers=1))
            if not torch.equal(copies, copies[:1].expand_as(copies)):
                return False
        for order in (slice(None), slice(None, None, -1)):
            states = self._pack_states((texts * 3)[order], sizes, layers=1)
            if not all(map(torch.equal, states, (expected * 3)[order])):
                return False
        return True

    def _batches(self, tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yield the positions of texts of similar length, which need little padding."""
        most = GPU_TOKENS
        if self.device.type == "cpu":
            most = CPU_TOKENS
        batch: list[int] = []
        for position in sorted(range(len(tokens)), key=lambda position: len(tokens[position])):
            if batch and (len(batch) + 1) * len(tokens[position]) > most:
                yield batch
                batch = []
            batch.append(position)
        yield batch

    def _vectors(self, tokens: Sequence[Sequence[int]]) -> Matrix:
        """Return the normalised means of the last hidden states, without those of padding."""
        import torch
        from torch.nn.functional import normalize
        from torch.nn.utils.rnn import pad_sequence

        ids = pad_sequence([torch.tensor(row) for row in tokens], batch_first=True).to(self.device)
        lengths = torch.tensor([len(row) for row in tokens], device=self.device)
        places = torch.arange(ids.shape[1], device=self.device)
        mask = places < lengths[:, None]

        def attend(*parts: torch.Tensor) -> torch.Tensor:
            return _attention(parts, mask[:, None, None, :])

        with torch.inference_mode():
            states = self._states(ids, places, attend)
        means = (states * mask[:, :, None]).sum(1) / lengths[:, None]
        matrix: Matrix = normalize(means, dim=1).cpu().numpy()
        return matrix

    def _pack_vectors(self, tokens: Sequence[Sequence[int]], sizes: Sequence[int]) -> Matrix:
        """Return the vectors of a pack, each of which depends on its own text, bit for bit."""
        import torch
        from torch.nn.functional import normalize

        states = self._pack_states(tokens, sizes)
        means = torch.stack([state.sum(0) / len(state) for state in states])
        matrix: Matrix = normalize(means, dim=1).numpy()
        return matrix

    def _pack_states(
        self, tokens: Sequence[Sequence[int]], sizes: Sequence[int], layers: int = LAYERS
    ) -> list[torch.Tensor]:
        """Return the hidden states of each text of a pack, shape (tokens, 384).

        The texts lie one behind another, filled with zeros to the next of `sizes`, so that each matrix product has one
        of few shapes. Attention is computed for each text apart.
        """
        import torch

        lengths = [len(row) for row in tokens]
        total = sum(lengths)
        size = min(size for size in sizes if size >= total)
        ids = torch.zeros(size, dtype=torch.long)
        places = torch.zeros(size, dtype=torch.long)
        ids[:total] = torch.tensor([token for row in tokens for token in row])
        places[:total] = torch.cat([torch.arange(length) for length in lengths])

        def attend(*parts: torch.Tensor) -> torch.Tensor:
            # Rows behind the texts stay zero.
            attended = torch.zeros_like(parts[0])
            pieces = zip(*(part[:total].split(lengths) for part in parts), strict=True)
            for target, piece in zip(attended[:total].split(lengths), pieces, strict=True):
                target.copy_(_attention([rows[None] for rows in piece])[0])
            return attended

        with torch.inference_mode():
            states = self._states(ids, places, attend, layers)
            return list(states[:total].split(lengths))

    def _states(
        self,
        ids: torch.Tensor,
        places: torch.Tensor,
        attend: Callable[..., torch.Tensor],
        layers: int = LAYERS,
    ) -> torch.Tensor:
        """Return the hidden states of BERT (Devlin et al. 2019) after `layers`, shape (*ids.shape, 384)."""
        from torch.nn.functional import gelu

        table = {
            name: self.weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        }
        states = self._norm(
            table["word"][ids] + table["position"][places] + table["token_type"][0],
            "embeddings.LayerNorm",
        )
        # The order of BERT: attention, sum and norm, then the inner layer, sum and norm (post-norm).
        for number in range(layers):
            layer = f"encoder.layer.{number}"
            attended = attend(
                *(
                    self._linear(states, f"{layer}.attention.self.{name}")
                    for name in ("query", "key", "value")
                )
            )
            attended = self._linear(attended, f"{layer}.attention.output.dense")
            states = self._norm(attended + states, f"{layer}.attention.output.LayerNorm")
            inner = self._linear(
                gelu(self._linear(states, f"{layer}.intermediate.dense")), f"{layer}.output.dense"
            )
            states = self._norm(inner + states, f"{layer}.output.LayerNorm")
        return states

    def _linear(self, rows: torch.Tensor, name: str) -> torch.Tensor:
        from torch.nn.functional import linear

        return linear(rows, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, rows: torch.Tensor, name: str) -> torch.Tensor:
        from torch.nn.functional import layer_norm

        return layer_norm(
            rows, (DIMENSION,), self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], 1e-12
        )
