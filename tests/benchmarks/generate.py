"""Texts of the bundled language model, against a bare `generate` of transformers at the same batch."""

import tempfile
from pathlib import Path

from connectors.models.transformers.model import HfModel
from connectors.models.transformers.options import HfOptions
from flows.config.task_files import load_task
from tasks.writing.prompts import LIST_END, listed
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, Work, in_turns, line

TEMPERATURE, MAX_TOKENS = 0.9, 48


def generate(tiny: bool) -> list[Line]:
    """Lists of one class with three examples; the unit is a token of a text, up to the line's end."""
    import torch

    rows, rounds = (4, 1) if tiny else (48, 5)
    card = load_task("support_desk")
    shown = (
        "My parcel has not come.",
        "The screen of my phone is dark.",
        "I cannot log in since Monday.",
    )
    names = card.label_names
    prompts = [listed(card, names[n % len(names)], "", shown, n) for n in range(rows)]
    with tempfile.TemporaryDirectory() as home:
        model = HfModel(
            "smollm2",
            "smollm2",
            HfOptions(temperature=TEMPERATURE, max_tokens=MAX_TOKENS),
            Path(home),
        )
        loaded = model._open()
        tokenizer = loaded.tokenizer
        tokenizer.padding_side, tokenizer.pad_token = (
            "left",
            tokenizer.pad_token or tokenizer.eos_token,
        )
        tokens: dict[str, list[int]] = {"ours": [], "generate": []}

        def bare() -> None:
            batch = tokenizer(
                [prompt.text for prompt in prompts], return_tensors="pt", padding=True
            )
            with torch.inference_mode():
                out = loaded.model.generate(
                    **batch, do_sample=True, temperature=TEMPERATURE, top_k=0, max_new_tokens=MAX_TOKENS,
                    stop_strings=[LIST_END], tokenizer=tokenizer, pad_token_id=tokenizer.pad_token_id,
                )  # fmt: skip
            texts = tokenizer.batch_decode(
                out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True
            )
            tokens["generate"].append(
                sum(len(tokenizer(text.split(LIST_END)[0])["input_ids"]) for text in texts)
            )

        def ours() -> None:
            tokens["ours"].append(
                sum(completion.tokens_out for completion in model.complete(prompts))
            )

        arms: dict[str, Work] = {"generate": bare, "ours": ours}
        taken = in_turns(arms, rounds)
    rates = {
        name: [n / t for n, t in zip(tokens[name][1:], taken[name], strict=True)] for name in arms
    }
    per_token = {name: [1 / rate for rate in rates[name]] for name in arms}
    note = f"{sorted(rates['ours'])[rounds // 2]:.0f} tokens/s beside {sorted(rates['generate'])[rounds // 2]:.0f}"
    entry = line(
        "generate",
        f"{rows} lists, seconds a token",
        "generate",
        per_token["ours"],
        per_token["generate"],
        note,
    )
    return [toward(entry, "P17", 1 / entry.ratio)]
