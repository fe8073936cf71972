"""The command that shares a dataset out among parties: `wasp partition`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.common import Json, answer


def partition(  # noqa: PLR0913  one option per setting
    rows: Annotated[str, typer.Argument(help="The rows: file, folder or address, as private.path.")],
    folder: Annotated[Path, typer.Argument(help="A new folder; each party gets one in it.")],
    parties: Annotated[int, typer.Option(help="How many parties (L).")] = 10,
    alpha: Annotated[float, typer.Option(help="Of the Dirichlet: small for unlike parties, large for equal ones.")] = 1,
    seed: Annotated[int, typer.Option(help="Equal seeds, equal parts.")] = 0,
    least: Annotated[int, typer.Option(help="Least rows of a party; the draw is repeated until all have them.")] = 1,
    text: Annotated[str, typer.Option(help="Column of the text.")] = "text",
    label: Annotated[str, typer.Option(help="Column of the label.")] = "label",
    person: Annotated[str | None, typer.Option(help="Column of the person; a person's rows stay together.")] = None,
    take: Annotated[int | None, typer.Option(help="How many rows to take, chosen by the seed; else all.")] = None,
    epsilon: Annotated[str, typer.Option(help="Cap of every party: epsilon of all runs together; inf: none.")] = "4",
    exchange: Annotated[
        str, typer.Option(help="Where messages are left: a folder, s3://BUCKET/PREFIX.")
    ] = "../exchange",
    api: Annotated[str, typer.Option(help="The coordinator's Prefect server; else PREFECT_API_URL.")] = "null",
    embedder: Annotated[
        str, typer.Option(help="CONNECTOR:MODEL that turns texts into vectors.")
    ] = "sentence_transformers:embedded",
    json_: Json = False,
) -> None:
    """Share rows out among parties by a Dirichlet draw per class, for experiments: a folder for each, private modes."""
    from connectors.interfaces.rows import RowsRef
    from flows.federation.partition import PartyFile
    from flows.federation.partition import partition as share_out
    from tasks.federation.partition import Partition

    where = RowsRef(path=rows, text=text, label=label, person=person, rows=take, seed=seed)
    found = share_out(
        where,
        folder,
        Partition(parties, alpha, seed, least),
        PartyFile(epsilon, exchange=exchange, api=api, embedder=embedder),
    )
    answer(found, json_, lambda value: f"{value['folder']}: {', '.join(value['parties'])}")
