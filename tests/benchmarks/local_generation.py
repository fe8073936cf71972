"""New tokens of the connector `hf` against the bare `generate` of transformers, in one process and in turns."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.transformers.model import HfModel
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, line
from tests.support.models.tiny import save_gpt2, save_llama

WIDTH, LAYERS, VOCABULARY = 384, 6, 8000
"""About 13 million parameters: small enough for a CPU, large enough that the model is what takes the time."""


def generation(tiny: bool) -> list[Line]:
    """Two small models: our connector beside the bare call at the same batch, and at batch 1; seconds per 1,000 tokens.

    All write as many new tokens per row, sampled at temperature 1 and top_p 1; no row ends early.
    """
    lines: list[Line] = []
    sizes = (16, 1, 50) if tiny else (WIDTH, LAYERS, VOCABULARY)
    repeats, batch, new = (1, 2, 4) if tiny else (5, 64, 64)
    with tempfile.TemporaryDirectory() as home:
        for kind, save in {"gpt2": save_gpt2, "llama": save_llama}.items():
            folder = Path(home) / kind
            save(folder, *sizes)
            taken = _measured(kind, folder, repeats, (batch, new))
            case = f"{kind}, batch {batch}, {new} tokens"
            note = f"{1000 / statistics.median(taken['ours']):,.0f} tokens/s"
            beside = line("generation", case, "bare generate", taken["ours"], taken["bare"], note)
            alone = line("generation", case, "bare generate, batch 1", taken["ours"], taken["bare_one"])
            lines += [toward(beside, "P18", 1 / beside.ratio), toward(alone, "P18-batch", 1 / alone.ratio)]
    return lines


def _measured(kind: str, folder: Path, repeats: int, sizes: tuple[int, int]) -> dict[str, list[float]]:
    """Return seconds per 1,000 tokens of each arm, round by round."""
    batch, new = sizes
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
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(repeats + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            tokens = run()
            if round_:
                taken[name].append(1000 * (time.perf_counter() - started) / tokens)
    return taken


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
