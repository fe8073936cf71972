"""What left the building: which vendor was asked what, from the prompts that every step kept."""

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
    """Return one line per PLM: where its prompts went, how many different ones, tokens, and the last of them."""
    found = []
    for plm in run.models:
        prompts = _prompts(run, [one for one in written if one.plm == plm])
        usage = sum((one.usage[plm] for one in facts if plm in one.usage), Usage())
        destinations = tuple(getattr(run.tools.model(plm), "destinations", ()))
        last = str(prompts["text"].iloc[-1])[:SHOWN_CHARACTERS] if len(prompts) else ""
        different = int(prompts["prompt_key"].nunique())
        found.append(Outgoing(plm, _connector(run, plm), destinations, different, usage, last))
    return tuple(found)


def _connector(run: Run, plm: str) -> str:
    return next(one.connector for one in run.config.models if one.name == plm)


def _prompts(run: Run, written: Sequence[Written]) -> pd.DataFrame:
    tables = []
    for one in written:
        path = PurePosixPath(one.samples.path).with_name("prompts.parquet")
        try:
            place = run.tools.artifacts.fetch(str(path))
        except ArtifactError as error:
            raise ArtifactError(f"{error} Delete samples.parquet beside it first.") from None
        tables.append(pd.read_parquet(place, columns=["prompt_key", "text"], partitioning=None))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["prompt_key", "text"])
