"""The data that a run sent to its language models, for the report."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import pyarrow.parquet as pq

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.models import Usage
from flows.engine.tools import RunTools
from tasks.metrics.iteration_record import IterationRecord
from tasks.reporting.run_record import Outgoing
from tasks.steps.values import TextTable

SHOWN_CHARACTERS = 1200
COLUMNS = ["prompt_key", "text"]
BATCH = 1024
"""Prompts that are read at once."""


def outgoing(
    tools: RunTools, written: Sequence[TextTable], iterations: Sequence[IterationRecord]
) -> tuple[Outgoing, ...]:
    """Return one line per model: destinations, number of different prompts, tokens and the last prompt."""
    lines = []
    for model in tools.config.models:
        plm = model.name
        keys, last = _prompts(tools.artifacts, [table for table in written if table.plm == plm])
        usage = Usage()
        for facts in iterations:
            usage += facts.usage.get(plm, Usage())
        line = Outgoing(
            plm=plm,
            connector=model.connector,
            # Only connectors that send texts to another machine have destinations.
            destinations=tuple(getattr(tools.model(plm), "destinations", ())),
            prompts=len(keys),
            usage=usage,
            last=last[:SHOWN_CHARACTERS],
        )
        lines.append(line)
    return tuple(lines)


def _prompts(artifacts: Artifacts, written: Sequence[TextTable]) -> tuple[set[str], str]:
    """Return the keys of the different prompts of some tables, and the text of the last prompt."""
    keys = set[str]()
    last = ""
    for table in written:
        path = PurePosixPath(table.samples.path).with_name("prompts.parquet")
        try:
            local = artifacts.fetch(str(path))
        except ArtifactError as error:
            # The step reuses samples.parquet, so the prompts return only with the texts.
            raise ArtifactError(
                f"{error} First delete samples.parquet in the same folder."
            ) from None
        # In batches: the prompts of a large run are much longer than its texts.
        with pq.ParquetFile(local) as file:
            for batch in file.iter_batches(BATCH, columns=COLUMNS, use_threads=False):
                keys.update(batch.column("prompt_key").to_pylist())
                if len(batch):
                    last = str(batch.column("text")[-1])
    return keys, last
