"""Ghost clipping against a gradient per row (hooks), both by Opacus: seconds of a step, and memory beyond the model's.

As a program it carries out steps of one kind and prints what they took, so that each kind has a process of its own.
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np

from tests.benchmarks.race import Line, line


def clipping(tiny: bool) -> list[Line]:
    """A classifier of BERT's shape, 256 wide, 4 layers: every weight learns, 32 rows of a step at once."""
    tokens, rounds, steps = (16, 1, 1) if tiny else (128, 3, 2)
    took: dict[str, list[tuple[float, float]]] = {"ghost": [], "hooks": []}
    for _ in range(rounds):
        for kind, found in took.items():
            command = [sys.executable, "-m", "tests.benchmarks.clipping", kind, str(tokens), str(steps)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found.append(tuple(json.loads(done.stdout.splitlines()[-1])))
    memory = {kind: float(np.median([megabytes for _, megabytes in found])) for kind, found in took.items()}
    note = f"memory beyond the model's: ghost {memory['ghost']:.0f} MB, hooks {memory['hooks']:.0f} MB"
    seconds = {kind: [one for one, _ in found] for kind, found in took.items()}
    return [line("clipping", f"32 rows of {tokens} tokens", "hooks", seconds["ghost"], seconds["hooks"], note)]


def carry_out(kind: str, tokens: int, steps: int) -> tuple[float, float]:
    """Return the seconds of a step of one kind of clipping, and the megabytes that steps took beyond the model."""
    from transformers import BertConfig, BertForSequenceClassification

    from tasks.accounting.dp_sgd import Training
    from tasks.private.training.dp_train import EncodedRows, train_privately
    from tasks.private.training.progress import StepsTaken
    from tasks.students.recipe import Recipe

    class Nowhere:
        """Keeps no checkpoint."""

        def write_private_arrays(self, path: str, arrays: object) -> None:
            """Drop it."""

        def read_private_arrays(self, path: str) -> None:
            """Nothing is kept."""

    shape = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    model = BertForSequenceClassification(BertConfig(vocab_size=8000, num_labels=40, **shape))
    ids = np.random.default_rng(0).integers(5, 8000, (32, tokens))
    rows = EncodedRows(ids, np.ones_like(ids), np.arange(32) % 40)
    # every row takes part in every step, so that all steps are alike
    recipe = Recipe(Training(1, 32, 32), 1.0, 1e-3, kind, rows_at_once=32, checkpoint_every=10_000)  # type: ignore[arg-type]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    train_privately(model, rows, recipe, StepsTaken.start(Nowhere(), "nowhere", "bench"))
    started = time.perf_counter()
    for _ in range(steps):
        train_privately(model, rows, recipe, StepsTaken.start(Nowhere(), "nowhere", "bench"))
    seconds = (time.perf_counter() - started) / steps
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    sys.stdout.write(json.dumps(carry_out(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))) + "\n")
