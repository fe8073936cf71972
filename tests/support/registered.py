"""A registered dataset of four notes, and runs of the demo that name it."""

import csv
from pathlib import Path
from typing import Any

from flows.cli import dataset
from flows.cli.common import Output
from flows.config.files import check_config, load_config
from flows.methods.wasp.config import WaspConfig
from tests.support.paths import ROOT

DEMO = ROOT / "deployments/configs/demo.yaml"


def write_notes(folder: Path) -> Path:
    """Write `notes.csv`, readable for its owner only."""
    labels, words = ("billing_question", "slow_internet"), ("bill", "box", "modem", "refund")
    rows = [(f"my {word} is late", labels[n % 2], f"p{n}") for n, word in enumerate(words)]
    path = folder / "notes.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("note", "kind", "who"), *rows])
    path.chmod(0o600)
    return path


def add(name: str = "clinic", epsilon: float | None = None, **changed: Any) -> Output:
    """Register the notes of the working folder under a name."""
    view: dict[str, Any] = {
        "path": "notes.csv",
        "text": "note",
        "label": "kind",
        "person": "who",
        "declared_rows": 500,
    } | changed
    return dataset.add(name, **view, epsilon_cap=epsilon)


def demo(private: Any, **changed: Any) -> WaspConfig:
    """Return the demo's configuration with other private rows."""
    values = load_config(WaspConfig, DEMO).model_dump(mode="json") | {"private": private} | changed
    return check_config(WaspConfig, values, "demo")
