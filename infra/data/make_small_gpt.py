"""Create the small GPT-2 of the embedded transformer.

Run `python -m infra.data.make_small_gpt --to FOLDER`. The model is trained from scratch on the shipped corpora,
each text after a few of its own words, so the words of a class influence it. Its purpose is to run the pipeline
anywhere, not to write well. Weights are stored in half precision. Another machine's arithmetic gives other last digits,
so the script does not reproduce the file exactly.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import pandas as pd

from infra.data.grammar import DATA

CORPORA = DATA / "corpora"
SEED, STEPS, ROWS, TOKENS = 1905, 1500, 24, 96
VOCABULARY, WIDTH, LAYERS, HEADS = 2000, 96, 2, 4
START, END = "<s>", "</s>"


def lines(seed: int) -> list[str]:
    """Return every text of the corpora after a few of its words, in random order."""
    rng = random.Random(seed)
    prompts = []
    for corpus in sorted(CORPORA.glob("*.parquet")):
        for text in pd.read_parquet(corpus)["text"]:
            words = [word.strip(".,!?").lower() for word in text.split() if len(word) > 3] or ["anything"]
            cues = rng.choices(words, k=rng.randint(2, 6))
            prompts.append(f'Text about "{cues[0]}" ({" ".join(cues[1:])}):\n{text}')
    rng.shuffle(prompts)
    return prompts


def make_tokenizer(texts: list[str]) -> Any:
    """Return a byte-level BPE trained on the texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[START, END], initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=START, eos_token=END, pad_token=END)


def make_model(tokenizer: Any, steps: int = STEPS) -> Any:
    """Return the trained model."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(SEED)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=256,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps, pct_start=0.05)
    batches: list[list[str]] = []
    for step in range(steps):
        if not batches:
            shuffled = lines(SEED + step)
            batches = [shuffled[start : start + ROWS] for start in range(0, len(shuffled), ROWS)]
        texts = [text + END for text in batches.pop()]
        batch = tokenizer(texts, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        targets = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=targets).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


def main() -> None:
    """Write the folder `small_gpt`."""
    parser = argparse.ArgumentParser(description="Make the small GPT-2 of the embedded transformer.")
    parser.add_argument("--to", type=Path, default=DATA / "small_gpt")
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    tokenizer = make_tokenizer(lines(SEED))
    model = make_model(tokenizer, arguments.steps)
    model.half().save_pretrained(arguments.to)
    tokenizer.save_pretrained(arguments.to)


if __name__ == "__main__":
    main()
