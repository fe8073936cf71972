"""A registered dataset of six notes, one of each class of the demo, and runs of the demo that name it."""

import csv
from pathlib import Path
from typing import Any

from flows.cli import dataset
from flows.cli.common import Output
from flows.config.files import check_config, load_config
from flows.config.task_files import load_task
from flows.methods.wasp.config import WaspConfig
from tests.support.paths import ROOT

DEMO = ROOT / "deployments/configs/demo.yaml"
CLASSES = list(load_task("support_desk").label_names)


def write_notes(folder: Path) -> Path:
    """Write `notes.csv`, readable for its owner only."""
    words = ("bill", "box", "modem", "refund", "parcel", "contract")
    rows = [
        (f"my {word} is late", label, f"p{n}")
        for n, (word, label) in enumerate(zip(words, CLASSES, strict=True))
    ]
    path = folder / "notes.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("note", "kind", "who"), *rows])
    path.chmod(0o600)
    return path


def add(name: str = "clinic", epsilon: float | None = None, **changed: Any) -> Output:
    """Register the notes of the working folder under a name, with the classes of the demo."""
    view: dict[str, Any] = {
        "class_": CLASSES,
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
