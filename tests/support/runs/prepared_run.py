"""Runs that are prepared in this process, on small tables of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from flows.config.files import check_config
from flows.engine.prepare import Prepared, prepare
from flows.methods.wasp.config import WaspConfig
from tests.support.runs.pipeline import values

LABELS = ["login_problem", "billing_question", "slow_internet", "delivery_delay", "cancel_contract", "hardware_fault"]


def start(home: Path, **changes: Any) -> Prepared:
    return prepare("wasp", check_config(WaspConfig, values(**changes), "the test"), home)


def table(path: Path, rows: list[tuple[Any, Any]], columns: tuple[str, str] = ("text", "label")) -> str:
    pd.DataFrame(rows, columns=list(columns)).to_parquet(path)
    return str(path)


def good_rows(tag: str) -> list[tuple[str, str]]:
    return [(f"the {tag} row number {n} about {label}", label) for n in range(3) for label in LABELS]
