"""Short labelled texts over few words, so that equal texts and equal distances are common."""

from __future__ import annotations

import random

LABELS = ("login_problem", "billing_question", "slow_internet")
WORDS = ("router", "invoice", "password", "parcel", "light", "cable", "refund", "signal", "reset", "email", "screen")
Row = tuple[str, str]


def rows(number: int, seed: int) -> list[Row]:
    """Return short texts over few words, so that equal texts and equal distances are common."""
    draw = random.Random(seed)
    return [(" ".join(draw.choices(WORDS, k=3)), draw.choice(LABELS)) for _ in range(number)]
