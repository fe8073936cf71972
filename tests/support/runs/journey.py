"""From made-up records to a verified bundle by the commands of the README, with a server that writes made-up texts."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tests.support.runs.pipeline import Pipeline
from tests.support.servers.vendor import Plan, VendorServer
from tests.support.servers.vendor_messages import Reply, Request, several

HASHING = ("--set", "embedder={connector: hashing, model: '', options: {dimension: 128}}")
SMALL = ("--set", "method.samples=60", "--set", "method.iterations=2")
TextOf = Callable[[str, random.Random], str]
"""Returns a text of a class."""


@dataclass(frozen=True, slots=True)
class Journey:
    """Results of the commands of a journey, and the place of its bundle."""

    made: dict[str, Any]
    plan: dict[str, Any]
    preview: dict[str, Any]
    run: dict[str, Any]
    bundle: Path
    prompts: Sequence[str]

    @property
    def epsilon(self) -> float:
        """Privacy loss of the texts; 0 without a charge."""
        return round(self.run["epsilon_spent"], 3)

    @property
    def card(self) -> str:
        """Text of the data card."""
        return (self.bundle / "README.md").read_text(encoding="utf-8")

    @property
    def texts(self) -> pd.DataFrame:
        """Rows of the bundle."""
        return pd.read_parquet(self.bundle / "synthetic.parquet")


def write_records(folder: Path, classes: Sequence[str], per_class: int, text_of: TextOf) -> None:
    """Write notes.csv with the columns text and label."""
    draw = random.Random(7)
    rows = [(text_of(name, draw), name) for name in classes for _ in range(per_class)]
    draw.shuffle(rows)
    with (folder / "notes.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def answers(classes: Sequence[str], text_of: TextOf) -> Plan:
    """Return the plan of a server whose texts have the class in the prompt and depend on prompt and seed alone."""

    def reply(request: Request) -> Reply:
        named = request.prompt.partition(' of the class "')[2].partition('"')[0]
        assert named in classes, request.prompt
        draw = random.Random(f"{request.prompt}|{request.body.get('seed')}")
        return several(request, [text_of(named, draw) for _ in range(request.body.get("n") or 1)])

    return reply


def travel(
    home: Path, plan: Plan, setup: Sequence[str] = (), settings: Sequence[str] = HASHING
) -> Journey:
    """Run init, plan, preview, run, export and verify-bundle in the folder of notes.csv; each must succeed."""
    folder = home.parent
    wasp = partial(Pipeline(home).answer, folder=folder)
    chosen = (*SMALL, *settings)
    with VendorServer(plan=plan) as server:
        model = ("--model", "openai:made-up", "--endpoint", f"{server.url}/v1")
        records = ("--data", "notes.csv", "--test-share", "0.3", "--yes")
        made = wasp("init", "triage", *records, *model, *setup)
        planned = wasp("plan", "triage", *chosen)
        previewed = wasp("preview", "triage", *chosen)
        run = wasp("run", "triage", *chosen)
        prompts = list(server.prompts)
    bundle = folder / "bundle"
    wasp("export", "latest", str(bundle))
    wasp("verify-bundle", str(bundle))
    return Journey(made, planned, previewed, run, bundle, prompts)
