"""One pass of a fine-tuned student over short texts, against the pass that one writes first."""

import io
from contextlib import redirect_stderr
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tasks.students import finetune
from tasks.students.loop import BestEpoch, Boost, Job, Reporter
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.transformer import open_network
from tests.benchmarks.embed import has_bfloat16, processor_seconds, short_texts, threads
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, Work, line

RATE, BATCH = 1e-4, 32
NAIVE = "naive pass"


def student(tiny: bool) -> list[Line]:
    """The embedded encoder, ten classes, one thread; texts have no meaning for their labels, which changes no time."""
    count, rounds = (12, 1) if tiny else (256, 3)
    texts = short_texts(count)
    classes = [str(number) for number in range(3 if tiny else 10)]
    labels = [classes[number % len(classes)] for number in range(count)]
    rows = TrainingRows(texts, labels, classes)
    with threads(1), redirect_stderr(io.StringIO()):
        precisions = {"float32": "P12"} | ({"auto": "P12-bf16"} if has_bfloat16() else {})
        plain = StudentSpec(epochs=1, validation_share=0.0, precision="float32")
        ours = {
            name: _Ours(plain if name == "float32" else replace(plain, precision="auto"), rows) for name in precisions
        }
        naive = _Naive(rows)
        for name, one in ours.items():
            _agree(naive.scores(), one.scores(), name)
        arms: dict[str, Work] = {NAIVE: naive.run} | {name: one.run for name, one in ours.items()}
        taken = processor_seconds(arms, rounds)
    return [toward(_line(count, name, taken), goal) for name, goal in precisions.items()]


def _line(count: int, name: str, taken: dict[str, list[float]]) -> Line:
    case = f"{count} short texts, {'bfloat16' if name == 'auto' else name}"
    return line("student", case, NAIVE, taken[name], taken[NAIVE], f"{count / np.median(taken[name]):.0f} texts/s")


class _Ours:
    """The pass of a real training: the job's batches, optimizer and weights; nothing is judged or saved."""

    def __init__(self, spec: StudentSpec, rows: TrainingRows) -> None:
        job = Job(spec, rows, rows.targets(), rows.row_weights(), np.arange(len(rows.texts)), np.arange(0), 1)
        torch.manual_seed(0)
        self.network = open_network(spec, rows.classes)
        finetune._freeze_tokens(self.network)
        self.training = finetune._Training(job, self.network, self.network.encode(rows.texts), Boost(job))

    def run(self) -> None:
        assert finetune._passes(self.training, BestEpoch(1), Reporter(0, None)) == 1

    def scores(self) -> Any:
        return finetune._scores(self.network, self.training.encoded, self.training.job.spec)


class _Naive:
    """The same network in random batches as they come, each padded to its longest text, all weights, plain AdamW."""

    def __init__(self, rows: TrainingRows) -> None:
        torch.manual_seed(0)
        self.network = open_network(StudentSpec(), rows.classes)
        self.encoded = self.network.encode(rows.texts)
        self.targets = torch.from_numpy(rows.targets())
        self.optimizer = torch.optim.AdamW(self.network.modules.parameters(), lr=RATE)
        self.generator = np.random.default_rng(0)

    def run(self) -> None:
        self.network.modules.train()
        order = self.generator.permutation(len(self.encoded))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            loss = torch.nn.functional.cross_entropy(self._logits(batch), self.targets[batch])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def scores(self) -> Any:
        self.network.modules.eval()
        with torch.no_grad():
            return self._logits(np.arange(len(self.encoded))).numpy()

    def _logits(self, batch: Any) -> Any:
        return self.network.logits(*finetune._padded(self.network, [self.encoded[row] for row in batch], "cpu"))


def _agree(naive: Any, ours: Any, precision: str) -> None:
    """Refuse a network that scores texts otherwise than the plain one before either has learned."""
    off = float(np.abs(naive - ours).max() / np.abs(naive).max())
    if off > (1e-4 if precision == "float32" else 0.05):
        raise AssertionError(f"the scores of {precision} are {off:.1e} away from those of the plain network")
