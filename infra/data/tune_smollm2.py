"""Tune the LoRA of the bundled language model `smollm2-helpdesk`.

Run `python -m infra.data.tune_smollm2 --to FOLDER --home .wasp`, about six minutes. It trains on lists of texts of one
class, the form of the prompts that the model continues: public rows of the demo task and texts of the corpus
`helpdesk`. No private and no test row is read. Another machine's arithmetic gives other last digits, so the script does
not reproduce the file exactly.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from connectors.models.transformers import smollm2
from infra.data.grammar import DATA

SEED, STEPS, LISTS, TOKENS = 1905, 80, 4, 256
RANK, RATE = 2, 4e-3
TASK = Path(__file__).parents[2] / "flows/config/task_files/support_desk.yaml"


def lists(seed: int) -> Iterator[str]:
    """Yield numbered lists of two to seven texts of a random class, about half of them public rows of the demo task."""
    rng = random.Random(seed)
    topics = {label["name"]: label["description"] for label in yaml.safe_load(TASK.read_text())["labels"]}
    files = ("support_desk/public.parquet", "corpora/helpdesk.parquet")
    desk, others = (pd.read_parquet(DATA / file).groupby("label")["text"].agg(list) for file in files)
    while True:
        label = rng.choice(sorted(topics))
        chosen = rng.sample([*rng.sample(desk[label], 4), *rng.sample(others[label], 3)], rng.randint(2, 7))
        yield "\n".join([f"Topic: {topics[label]}.", *(f"{n}. {text}" for n, text in enumerate(chosen, 1)), ""])


def tune(base: Path, steps: int = STEPS) -> Any:
    """Return the model in `base` with a trained LoRA."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(base)
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    adapter = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(plain, adapter)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    rates = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    texts = lists(SEED)
    for step in range(steps):
        batch = tokenizer(
            [next(texts) for _ in range(LISTS)],
            padding=True,
            padding_side="right",
            truncation=True,
            max_length=TOKENS,
            return_tensors="pt",
        )
        labels = batch.input_ids.masked_fill(batch.attention_mask == 0, -100)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**batch, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        rates.step()
        print(f"step {step + 1} of {steps}: loss {loss.item():.3f}")
    return model


def main() -> None:
    """Write `adapter_model.safetensors` (float16) and `adapter_config.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="Folder to write.")
    parser.add_argument("--home", type=Path, required=True, help="State folder with the converted smollm2.")
    arguments = parser.parse_args()
    model = tune(smollm2.converted(arguments.home))
    model.half().save_pretrained(arguments.to)
    (arguments.to / "README.md").unlink()
    # Without the library's defaults, which other versions of it would not know.
    settings = json.loads((arguments.to / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = smollm2.NAME
    used = ("base_model_name_or_path", "lora_alpha", "peft_type", "r", "target_modules", "task_type")
    text = json.dumps({name: settings[name] for name in used}, indent=2)
    (arguments.to / "adapter_config.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
