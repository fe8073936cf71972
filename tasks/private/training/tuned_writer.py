"""Charges and runs one training of a language model on private rows, and writes its weights.

The release is the weights after all planned steps; it is charged in full before a row is read. After a crash the
training resumes from its checkpoint and its step count (`progress`), and nothing is charged again.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import (
    ConfigError,
    LedgerError,
    LostArtifactsError,
    MissingPackageError,
)
from connectors.interfaces.ledger import ReleaseRequest, StoredRelease
from tasks.private.rows.quarantine import sealed
from tasks.private.rows.rows import OpenedRows, open_rows
from tasks.private.training.dp_train import IGNORED, EncodedRows, train_privately
from tasks.private.training.progress import StepsTaken
from tasks.private.training.recipe import ALPHA, PaidTraining, TuneSpec
from tasks.private.votes.step import never_draw
from tasks.steps.tools import Tools
from tasks.steps.values import TRAINING
from tasks.students.loop import import_torch, seeded
from tasks.students.transformer import hide_output

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizer

FACTS_FILE = "training.json"
"""File next to the weights: the number of steps begun, and of those in the weights."""


def pay(tools: Tools, spec: PaidTraining, keys: Callable[[int], str]) -> tuple[StepsTaken, str]:
    """Return step count and ledger entry of the payment of a training that can still run; charge a new one in full.

    `keys(n)`: the step key of the n-th payment. A payment whose count or checkpoint is gone is lost: it stays charged,
    and another payment requires `respend`. Raises BudgetError, LedgerError or LostArtifactsError.
    """
    before = payments(tools, spec, keys)
    if before:
        release = before[-1]
        receipt = json.loads(release.output)
        taken = StepsTaken.find(tools.artifacts, receipt["folder"], receipt["token"])
        if taken is not None and not taken.forgotten:
            return taken, release.entry_hash
        if not spec.payer.respend:
            raise LostArtifactsError(
                f"The training of run {tools.run_id} is charged, but its checkpoint is not in the private zone of this "
                "machine: it started on another machine, or was removed. Resume it there, or set "
                f"privacy.on_lost_artifacts: respend to pay again (wasp resume {tools.run_id} --respend)."
            )
    key = keys(len(before))
    token = secrets.token_hex(16)
    folder = f"private/trainings/{key[:32]}"
    begun: list[StepsTaken] = []

    def begin() -> bytes:
        # Inside the transaction: every charge has a count, and a count without a charge is never read.
        begun.append(StepsTaken.start(tools.artifacts, folder, token))
        return json.dumps({"folder": folder, "token": token}).encode()

    release = tools.ledger.release_once(_request(tools, spec, key, len(before)), begin)
    # Its count belongs to the other process: two that train would take each step twice.
    if release.reused:
        raise LedgerError("Another process is charging this training; resume the run.")
    return begun[0], release.entry_hash


def payments(tools: Tools, spec: PaidTraining, keys: Callable[[int], str]) -> list[StoredRelease]:
    """Return the ledger's releases of this training, one per payment."""
    releases: list[StoredRelease] = []
    while tools.ledger.released(spec.payer.dataset, keys(len(releases))):
        number = len(releases)
        releases.append(
            tools.ledger.release_once(_request(tools, spec, keys(number), number), never_draw)
        )
    return releases


def train_writer(tools: Tools, spec: TuneSpec, base: Path, taken: StepsTaken, folder: Path) -> None:
    """Train the model in `base`; write weights (LoRA merged) and tokenizer to `folder`.

    Error details are written to the private zone, never to the message.
    """
    with (
        lock_training(tools.zone.folder.parent / "trainings", taken.folder),
        sealed(tools.zone.folder),
    ):
        rows = open_rows(tools.zone, tools.private, spec.paid.payer.fingerprint).of(spec.controls)
        with hide_output():
            model, tokenizer = open_writer(base, spec.rank, spec.seed)
            encoded = encode(tokenizer, rows, spec.controls, spec.tokens)
            with tools.progress("train under DP", spec.paid.recipe.training.steps) as advance:
                done = train_privately(model, encoded, spec.paid.recipe, taken, advance)
            if spec.rank:
                model = model.merge_and_unload()
            model.cpu().save_pretrained(folder)
            # The model has learned plain control texts.
            tokenizer.chat_template = None
            tokenizer.save_pretrained(folder)
            write_step_counts(folder / FACTS_FILE, taken.begun, done)


def write_step_counts(path: Path, begun: int, done: int) -> None:
    """Write the number of steps begun, and of steps in the weights."""
    path.write_text(json.dumps({"steps_begun": begun, "steps_in_weights": done}), encoding="utf-8")


def open_writer(base: Path, rank: int, seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizer]:
    """Return a causal language model (float32, ready for training) and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch = import_torch()
    tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(base, local_files_only=True, dtype=torch.float32)
    if rank:
        with seeded(seed):
            model = _with_adapter(model, rank)
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def encode(
    tokenizer: PreTrainedTokenizer, rows: OpenedRows, controls: Mapping[str, str], tokens: int
) -> EncodedRows:
    """Encode each row as control text, text and end token, cut or padded to `tokens`.

    Only the text and the end token are learned.
    """
    prefixes = {label: list(tokenizer(control)["input_ids"]) for label, control in controls.items()}
    end: list[int] = []
    padding = 0
    if tokenizer.eos_token_id is not None:
        end = [tokenizer.eos_token_id]
        padding = tokenizer.eos_token_id
    ids = np.full((len(rows.texts), tokens), padding, dtype=np.int64)
    mask = np.zeros_like(ids)
    targets = np.full_like(ids, IGNORED)
    for row, (text, label) in enumerate(zip(rows.texts, rows.labels, strict=True)):
        prefix = prefixes[label]
        # `verbose` warns about a text that is longer than the model reads, with its length.
        encoded = tokenizer(text.strip(), add_special_tokens=False, verbose=False)
        tokens_of_text = encoded["input_ids"]
        sequence = [*prefix, *tokens_of_text, *end][:tokens]
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
        targets[row, len(prefix) : len(sequence)] = sequence[len(prefix) :]
    return EncodedRows(ids, mask, targets)


def _with_adapter(model: PreTrainedModel, rank: int) -> PreTrainedModel:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingPackageError("peft", "dpsgd") from None
    config = LoraConfig(r=rank, lora_alpha=ALPHA, lora_dropout=0.0, task_type="CAUSAL_LM")
    try:
        return get_peft_model(model, config)
    except ValueError:
        kind = model.config.model_type
        raise ConfigError(
            f"method.rank: LoRA does not support models of type '{kind}'; set method.rank: 0 to train all weights."
        ) from None


def _request(tools: Tools, spec: PaidTraining, key: str, number: int) -> ReleaseRequest:
    return ReleaseRequest(
        spec.payer.dataset, tools.run_id, TRAINING, key, spec.noise.charge, respend=number > 0
    )


@contextmanager
def lock_training(folder: Path, name: str) -> Iterator[None]:
    """Lock a training: two processes would take each step twice and count it once."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{Path(name).name}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerError(
                "Another process is running this training; wait for it and resume."
            ) from None
        yield
    finally:
        os.close(descriptor)
