"""Prompts sent to model providers, from the prompts that every step stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pandas as pd

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.models import Usage
from tasks.core.refs import Written
from tasks.metrics.iteration_record import Facts
from tasks.reporting.report_model import Outgoing

if TYPE_CHECKING:
    from flows.engine.run import Run

SHOWN_CHARACTERS = 1200


def outgoing(run: Run, written: Sequence[Written], facts: Sequence[Facts]) -> tuple[Outgoing, ...]:
    """Return one line per PLM: destinations, number of different prompts, tokens and the last prompt."""
    lines = []
    for plm in run.models:
        prompts = _prompts(run, [table for table in written if table.plm == plm])
        usage = sum((iteration.usage[plm] for iteration in facts if plm in iteration.usage), Usage())
        destinations = tuple(getattr(run.tools.model(plm), "destinations", ()))
        last = str(prompts["text"].iloc[-1])[:SHOWN_CHARACTERS] if len(prompts) else ""
        different = int(prompts["prompt_key"].nunique())
        lines.append(Outgoing(plm, _connector(run, plm), destinations, different, usage, last))
    return tuple(lines)


def _connector(run: Run, plm: str) -> str:
    return next(model.connector for model in run.config.models if model.name == plm)


def _prompts(run: Run, written: Sequence[Written]) -> pd.DataFrame:
    tables = []
    for table in written:
        path = PurePosixPath(table.samples.path).with_name("prompts.parquet")
        try:
            local = run.tools.artifacts.fetch(str(path))
        except ArtifactError as error:
            raise ArtifactError(f"{error} First delete samples.parquet in the same folder.") from None
        tables.append(pd.read_parquet(local, columns=["prompt_key", "text"], partitioning=None))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["prompt_key", "text"])
