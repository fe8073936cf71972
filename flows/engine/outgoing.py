"""The data that a run sent to its language models, for the report."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import pandas as pd

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.models import Usage
from flows.engine.tools import RunTools
from tasks.metrics.iteration_record import IterationRecord
from tasks.reporting.run_record import Outgoing
from tasks.steps.values import TextTable

SHOWN_CHARACTERS = 1200
COLUMNS = ["prompt_key", "text"]


def outgoing(
    tools: RunTools, written: Sequence[TextTable], iterations: Sequence[IterationRecord]
) -> tuple[Outgoing, ...]:
    """Return one line per model: destinations, number of different prompts, tokens and the last prompt."""
    lines = []
    for model in tools.config.models:
        plm = model.name
        prompts = _prompts(tools.artifacts, [table for table in written if table.plm == plm])
        usage = Usage()
        for facts in iterations:
            usage += facts.usage.get(plm, Usage())
        last = ""
        if len(prompts):
            last = str(prompts["text"].iloc[-1])[:SHOWN_CHARACTERS]
        line = Outgoing(
            plm=plm,
            connector=model.connector,
            # Only connectors that send texts to another machine have destinations.
            destinations=tuple(getattr(tools.model(plm), "destinations", ())),
            prompts=int(prompts["prompt_key"].nunique()),
            usage=usage,
            last=last,
        )
        lines.append(line)
    return tuple(lines)


def _prompts(artifacts: Artifacts, written: Sequence[TextTable]) -> pd.DataFrame:
    tables = []
    for table in written:
        path = PurePosixPath(table.samples.path).with_name("prompts.parquet")
        try:
            local = artifacts.fetch(str(path))
        except ArtifactError as error:
            # The step reuses samples.parquet, so the prompts return only with the texts.
            raise ArtifactError(
                f"{error} First delete samples.parquet in the same folder."
            ) from None
        # Without partitioning: pandas would add columns from folder names such as iteration=0.
        tables.append(pd.read_parquet(local, columns=COLUMNS, partitioning=None))
    if not tables:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(tables, ignore_index=True)
