"""Runs that are prepared in this process, on small tables of rows."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.ledger import ReleaseRequest
from flows.config.files import check_config
from flows.engine.prepare import Prepared, prepare
from flows.methods.wasp.config import WaspConfig
from tasks.steps.values import TextTable
from tasks.writing.generate import ROW_TYPES
from tests.support.runs.pipeline import values

LABELS = [
    "login_problem",
    "billing_question",
    "slow_internet",
    "delivery_delay",
    "cancel_contract",
    "hardware_fault",
]

WORDS = (
    *("router", "invoice", "parcel", "light", "cable", "refund"),
    *("signal", "reset", "email", "screen", "order", "bill"),
)


def config(**changes: Any) -> WaspConfig:
    return check_config(WaspConfig, values(**changes), "the test")


def start(home: Path, **changes: Any) -> Prepared:
    return prepare("wasp", config(**changes), home)


def lift_cap(prepared: Prepared) -> Prepared:
    """Lift the default cap of a run's dataset, as its owner does for a run that needs more or has no noise."""
    dataset = prepared.tools.run_name.dataset
    if dataset:
        prepared.tools.ledger.set_cap(dataset, math.inf, 1e-5, "the owner", "lifted by the test")
    return prepared


def table(path: Path, rows: list[tuple[Any, Any]]) -> str:
    pd.DataFrame(rows, columns=["text", "label"]).to_parquet(path)
    return str(path)


def good_rows(tag: str) -> list[tuple[str, str]]:
    return [
        (f"the {tag} row number {n} about {label}", label) for n in range(3) for label in LABELS
    ]


def sample_rows(
    texts: Sequence[str], labels: Sequence[str], plm: str = "clerk", iteration: int = 0
) -> pd.DataFrame:
    """Return texts of one model as the step `generate` writes them."""
    rows = pd.DataFrame(
        {"sample_id": range(100 * iteration, 100 * iteration + len(texts)), "text": texts}
    )
    rows = rows.assign(
        label=labels,
        attribute="",
        plm=plm,
        iteration=iteration,
        prompt_key="",
        finish_reason="stop",
    )
    return rows.assign(tokens_in=0, tokens_out=0)[list(ROW_TYPES)]


def write_texts(run: Prepared, iteration: int, labels: Sequence[str]) -> TextTable:
    """Write the texts of one iteration and their embeddings, as models would; equal ones where they exist."""
    texts = [
        f"{WORDS[(n + iteration) % len(WORDS)]} {WORDS[n]} {iteration}" for n in range(len(WORDS))
    ]
    own = [labels[(100 * iteration + n) % len(labels)] for n in range(len(texts))]
    rows = sample_rows(texts, own, iteration=iteration)
    artifacts, location = (
        run.tools.artifacts,
        f"runs/{run.tools.run_id}/iteration={iteration}/plm=clerk/samples.parquet",
    )
    key = StepKey("texts", 1, {"place": location}, {})
    samples = artifacts.find(location, key) or artifacts.write_table(location, rows, key)
    vectors, location = run.tools.embedder.embed(texts), f"embeddings/{samples.sha256[:32]}.parquet"
    return TextTable(
        "clerk",
        iteration,
        samples,
        artifacts.find(location, key) or artifacts.write_matrix(location, vectors, key),
    )


def release(run: Prepared, slot: int = 0) -> None:
    """Reserve what a run plans and pay for one of its votes."""
    name, ledger = run.tools.run_name, run.tools.ledger
    ledger.reserve(name.dataset, run.plan, "Ada")
    asked = ReleaseRequest(
        name.dataset,
        name.run_id,
        f"vote-{slot}",
        f"{name.run_id}-{slot}",
        run.guarantee.noise.charge,
    )
    ledger.release_once(asked, lambda: b"noise")
