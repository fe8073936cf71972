"""Examples of prompts: the good and bad texts of each class of a selection."""

import pandas as pd

Examples = dict[str, tuple[str, ...]]
"""Texts per class, best first (or worst first)."""


def examples_of(selection: pd.DataFrame) -> tuple[Examples, Examples]:
    """Return the (good, bad) texts per class of a selection, by rank."""
    ordered = selection.sort_values(["label", "kind", "rank"])
    both: dict[str, Examples] = {"good": {}, "bad": {}}
    for (label, kind), group in ordered.groupby(["label", "kind"], sort=False):
        both[str(kind)][str(label)] = tuple(group["text"])
    return both["good"], both["bad"]
