"""Short labelled texts over few words, so that equal texts and equal distances are common."""

import json
import random
from collections.abc import Iterable
from pathlib import Path

LABELS = ("login_problem", "billing_question", "slow_internet")
WORDS = (
    "router",
    "invoice",
    "password",
    "parcel",
    "light",
    "cable",
    "refund",
    "signal",
    "reset",
    "email",
    "screen",
)
Row = tuple[str, str]


def rows(number: int, seed: int) -> list[Row]:
    """Return short texts over few words, so that equal texts and equal distances are common."""
    draw = random.Random(seed)
    return [(" ".join(draw.choices(WORDS, k=3)), draw.choice(LABELS)) for _ in range(number)]


def save_rows(path: Path, rows: Iterable[Row]) -> dict[str, str]:
    """Write rows as lines of JSON and return their group of a configuration."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
    )
    return {"path": str(path)}
