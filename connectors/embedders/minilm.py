"""all-MiniLM-L6-v2 in plain torch, the encoder `embedded`.

sentence-transformers computes the same vectors, but every process that embeds would import its 3,500 further modules:
four times the processor time and twice the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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


CHARACTERS_PER_TOKEN = 16
"""Characters of a text, per token of the limit, that are enough to decide whether it is longer."""


def cut_texts(folder: Path, texts: Sequence[str], max_length: int) -> list[bool]:
    """Return which texts have more than `max_length` tokens, of which the encoder reads the first; loads no weights."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length)
    starts = [text[: CHARACTERS_PER_TOKEN * max_length] for text in texts]
    return [bool(encoding.overflowing) for encoding in tokenizer.encode_batch(starts)]


class MiniLm:
    """Weights and tokenizer of a folder. Not thread-safe."""

    def __init__(self, folder: Path, device: torch.device, max_length: int) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        self.device = device
        self.weights = load_file(folder / "model.safetensors", device=str(device))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(max_length)
        self.tokenizer.no_padding()

    def encode(self, texts: Sequence[str], alone: bool) -> Matrix:
        """Return vectors of length 1, shape (texts, 384); with `alone`, each text is a batch.

        On a CPU, each batch has one core: the bits do not depend on the number of threads.
        """
        import numpy as np

        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)

        def work(batch: list[int]) -> Matrix:
            return self._vectors([tokens[position] for position in batch])

        batches = self._batches(tokens)
        if alone:
            batches = ([position] for position in range(len(texts)))
        results: Iterable[tuple[list[int], Matrix]] = ((batch, work(batch)) for batch in batches)
        if self.device.type == "cpu":
            results = compute(work, batches)
        # In order of completion: each batch has the positions of its texts.
        for batch, rows in results:
            vectors[batch] = rows
        return vectors

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
        mask = torch.arange(ids.shape[1], device=self.device) < lengths[:, None]
        with torch.inference_mode():
            states = self._states(ids, mask)
        means = (states * mask[:, :, None]).sum(1) / lengths[:, None]
        matrix: Matrix = normalize(means, dim=1).cpu().numpy()
        return matrix

    def _states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the last hidden states of BERT (Devlin et al. 2019), shape (texts, tokens, 384)."""
        from torch.nn.functional import gelu, scaled_dot_product_attention

        table = {
            name: self.weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        }
        states = self._norm(
            table["word"][ids] + table["position"][: ids.shape[1]] + table["token_type"][0],
            "embeddings.LayerNorm",
        )
        # The order of BERT: attention, sum and norm, then the inner layer, sum and norm (post-norm).
        for number in range(LAYERS):
            layer = f"encoder.layer.{number}"
            query, key, value = (
                self._linear(states, f"{layer}.attention.self.{name}")
                .unflatten(2, (HEADS, -1))
                .transpose(1, 2)
                for name in ("query", "key", "value")
            )
            attended = (
                scaled_dot_product_attention(query, key, value, mask[:, None, None, :])
                .transpose(1, 2)
                .flatten(2)
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
