"""New tokens per second of `hf_model` against the bare `generate` of transformers, in one process and interleaved.

python -m tests.benchmarks.local_generation
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from connectors.base import ModelSpec, Prompt
from connectors.hf_model import HfModel
from tests.tiny_models import save_gpt2, save_llama

WIDTH, LAYERS, VOCABULARY = 384, 6, 8000
"""About 13 million parameters: small enough for a CPU, large enough that the model is what takes the time."""


def local_generation(
    repeats: int = 5, batch: int = 64, new: int = 64, kinds: tuple[str, ...] = ("gpt2", "llama")
) -> dict:
    """Return per kind: our rate at `batch` over the bare one at `batch`, and over the bare one at batch 1.

    All write `new` tokens per row, sampled at temperature 1 and top_p 1; no row ends early.
    """
    with tempfile.TemporaryDirectory() as home:
        return {kind: _measured(kind, Path(home) / kind, (repeats, batch, new)) for kind in kinds}


def _measured(kind: str, folder: Path, sizes: tuple[int, int, int]) -> dict[str, float]:
    repeats, batch, new = sizes
    (save_gpt2 if kind == "gpt2" else save_llama)(folder, WIDTH, LAYERS, VOCABULARY)
    options = {"top_p": 1.0, "batch": batch, "chat": "no"}
    model = HfModel.from_spec(ModelSpec(kind, "hf", str(folder), options))
    loaded = model._open()
    # Rows that end early would make rates incomparable.
    loaded.model.generation_config.eos_token_id = None
    prompts = [Prompt(f"Write one text. Number {i % 10}.", "x", max_tokens=new, seed=i) for i in range(batch)]
    ids = torch.tensor([loaded.tokenizer(p.text)["input_ids"] for p in prompts])
    runs: dict[str, Callable[[], int]] = {
        "ours": lambda: _ours(model, prompts, new),
        "bare": lambda: _bare(loaded.model, ids, new),
        "bare_one": lambda: _bare(loaded.model, ids[:1], new),
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(repeats + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            tokens = run()
            if round_:
                rates[name].append(tokens / (time.perf_counter() - started))
    median = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "ours_per_bare_at_batch": median["ours"] / median["bare"],
        "ours_at_batch_per_bare_at_1": median["ours"] / median["bare_one"],
        **{f"{name}_tokens_per_second": rate for name, rate in median.items()},
    }


def _ours(model: HfModel, prompts: list[Prompt], new: int) -> int:
    model.complete(prompts)
    return len(prompts) * new


def _bare(model: Any, ids: torch.Tensor, new: int) -> int:
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            do_sample=True,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
        )
    assert out.shape == (ids.shape[0], ids.shape[1] + new)
    return ids.shape[0] * new


if __name__ == "__main__":
    print(json.dumps(local_generation(), indent=2))  # noqa: T201
