"""Pays for one training of a language model on private rows, carries it out, and writes its weights.

One release: the weights after all planned steps, charged whole before a row is opened for it. After a crash the
training goes on from its checkpoint and from its count (`steps_taken`), and nothing is charged again.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from connectors.interfaces.errors import ConfigError, LedgerError, LostArtifactsError, MissingPackageError
from connectors.interfaces.ledger import Charge, Release, ReleaseRequest
from tasks.core.slots import TRAINING
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import PrivateRows, open_rows
from tasks.private.training.dp_train import IGNORED, EncodedRows, train_privately
from tasks.private.training.progress import StepsTaken
from tasks.students.loop import import_torch, seeded
from tasks.students.recipe import Adapter, Recipe

if TYPE_CHECKING:
    from tasks.core.tools import Tools


TOLD = "training.json"
"""Beside the weights: the steps that were begun, and those that are in the weights."""


@dataclass(frozen=True, slots=True)
class TuneJob:
    """One training: whose rows, which model, which steps.

    `controls`: the control text of each class, which stands before every text of it. `tokens`: the length that rows
    are cut or padded to. `seed` rules the first values of LoRA matrices and nothing else.
    """

    dataset: str
    fingerprint: str
    charge: Charge
    base: Path
    controls: Mapping[str, str]
    tokens: int
    recipe: Recipe
    adapter: Adapter
    seed: int
    respend: bool = False


class Payable(Protocol):
    """What a payment has to know of a training."""

    @property
    def dataset(self) -> str:
        """Whose budget book."""

    @property
    def charge(self) -> Charge:
        """What the whole training costs."""

    @property
    def respend(self) -> bool:
        """Whether a payment whose checkpoint is gone may be made again."""


@dataclass(frozen=True, slots=True)
class Paid:
    """A training that is paid for: its count, and the ledger's line."""

    taken: StepsTaken
    entry: str


def pay(tools: Tools, job: Payable, keys: Callable[[int], str]) -> Paid:
    """Return the payment of a training that can still be carried out; a new one is charged in full.

    `keys(n)`: the step key of the n-th payment. A payment whose count or checkpoint is gone is lost: it stays charged,
    and another is made only where `respend` allows it. Raises BudgetError, LedgerError or LostArtifactsError.
    """
    before = payments(tools, job, keys)
    if before:
        release = before[-1]
        receipt = json.loads(release.output)
        taken = StepsTaken.find(tools.artifacts, receipt["folder"], receipt["token"])
        if taken is not None and not taken.forgotten:
            return Paid(taken, release.entry_hash)
        if not job.respend:
            raise LostArtifactsError(
                f"The training of run {tools.run_id} was paid for, but its checkpoint is not in the private zone of "
                "this machine: it began on another one, or was removed. Go on there, or set "
                f"privacy.on_lost_artifacts: respend to pay again (wasp resume {tools.run_id} --respend)."
            )
    key, token = keys(len(before)), secrets.token_hex(16)
    folder = f"private/trainings/{key[:32]}"
    begun: list[StepsTaken] = []

    def begin() -> bytes:
        # Inside the transaction: what is charged has a count, and a count without its charge is never found.
        begun.append(StepsTaken.start(tools.artifacts, folder, token))
        return json.dumps({"folder": folder, "token": token}).encode()

    release = tools.ledger.release_once(_request(tools, job, key, len(before)), begin)
    if release.reused:
        raise LedgerError("Another process pays for this training at this moment; resume the run.")
    return Paid(begun[0], release.entry_hash)


def payments(tools: Tools, job: Payable, keys: Callable[[int], str]) -> list[Release]:
    """Return what the budget book holds of this training, read back: one line for each time that it was paid."""
    found: list[Release] = []
    while tools.ledger.released(job.dataset, keys(len(found))):
        number = len(found)
        found.append(tools.ledger.release_once(_request(tools, job, keys(number), number), _never))
    return found


def train_writer(tools: Tools, job: TuneJob, taken: StepsTaken, folder: Path) -> None:
    """Train, and write weights and tokenizer into `folder`, LoRA matrices merged into the weights.

    What goes wrong inside is told in the private zone, never in the message.
    """
    with alone(tools.zone.folder.parent / "trainings", taken.folder), sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, job.fingerprint)
        with silent():
            model, tokenizer = open_writer(job.base, job.adapter, job.seed)
            encoded = encode(tokenizer, rows, job.controls, job.tokens)
            with tools.progress("train under DP", job.recipe.training.steps) as advance:
                done = train_privately(model, encoded, job.recipe, taken, advance)
            merged = model.merge_and_unload() if job.adapter.rank else model
            merged.cpu().save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            written_down(folder / TOLD, taken.begun, done)


def written_down(place: Path, begun: int, done: int) -> None:
    """Write beside the weights how many steps were begun, and how many are in them."""
    place.write_text(json.dumps({"steps_begun": begun, "steps_in_weights": done}), encoding="utf-8")


def open_writer(base: Path, adapter: Adapter, seed: int) -> tuple[Any, Any]:
    """Return a causal language model in single precision, ready to be trained, and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch = import_torch()
    tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(base, local_files_only=True, dtype=torch.float32)
    if adapter.rank:
        with seeded(seed):
            model = _with_adapter(model, adapter)
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def encode(tokenizer: Any, rows: PrivateRows, controls: Mapping[str, str], tokens: int) -> EncodedRows:
    """Return the rows as numbers: control text, text and end, cut or padded to `tokens`; only the text is learned."""
    fronts = {label: list(tokenizer(control)["input_ids"]) for label, control in controls.items()}
    end = tokenizer.eos_token_id
    ids = np.full((len(rows.texts), tokens), end if end is not None else 0, dtype=np.int64)
    mask, targets = np.zeros_like(ids), np.full_like(ids, IGNORED)
    for row, (text, label) in enumerate(zip(rows.texts, rows.labels, strict=True)):
        front = fronts[label]
        inner = tokenizer(text.strip(), add_special_tokens=False, verbose=False)["input_ids"]
        whole = [*front, *inner, *([end] if end is not None else [])][:tokens]
        ids[row, : len(whole)] = whole
        mask[row, : len(whole)] = 1
        targets[row, len(front) : len(whole)] = whole[len(front) :]
    return EncodedRows(ids, mask, targets)


def _with_adapter(model: Any, adapter: Adapter) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingPackageError("peft", "dpsgd") from None
    wanted = LoraConfig(r=adapter.rank, lora_alpha=adapter.alpha, lora_dropout=0.0, task_type="CAUSAL_LM")
    try:
        return get_peft_model(model, wanted)
    except ValueError:
        kind = model.config.model_type
        raise ConfigError(
            f"method.rank: LoRA knows no layers to change in models of type '{kind}'; set method.rank: 0 to train all "
            "weights."
        ) from None


def _request(tools: Tools, job: Payable, key: str, number: int) -> ReleaseRequest:
    return ReleaseRequest(job.dataset, tools.run_id, TRAINING, key, job.charge, respend=number > 0)


def _never() -> bytes:
    raise LedgerError("A training that is in the budget book is read back, not begun again.")


@contextmanager
def alone(folder: Path, name: str) -> Iterator[None]:
    """Let one process at a time carry out a training: two would take each step twice and count it once."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{Path(name).name}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerError("Another process carries out this training now; wait for it and resume.") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def silent() -> Iterator[None]:
    """Keep the progress bars and advice of transformers off the screen."""
    from transformers.utils import logging as told

    level, bars = told.get_verbosity(), told.is_progress_bar_enabled()
    told.set_verbosity_error()
    told.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        told.set_verbosity(level)
        if bars:
            told.enable_progress_bar()
