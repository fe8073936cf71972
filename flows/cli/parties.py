"""The commands of several parties: party and partition."""

from pathlib import Path
from typing import Annotated

import typer

from connectors.interfaces.errors import ConfigError
from flows.cli.common import Output
from flows.runtime.library_output import hidden_library_output
from flows.runtime.terminal_progress import connector_messages


def party(
    config: Annotated[Path, typer.Option("--config", "-c", help="The party's file (party.yaml).")],
) -> None:
    """Vote with this party's rows until interrupted; print its registry line if the registry lacks it."""
    from flows.federation.party import load_party, serve_party

    with hidden_library_output(), connector_messages():
        serve_party(load_party(config))


def partition(  # noqa: PLR0913  one option per setting
    rows: Annotated[str, typer.Argument(help="Rows: file, folder or address, as in private.path.")],
    folder: Annotated[Path, typer.Argument(help="New folder; each party gets a subfolder.")],
    parties: Annotated[int, typer.Option(min=2, help="Number of parties.")] = 10,
    alpha: Annotated[
        float,
        typer.Option(
            min=1e-3, max=1e6, help="Dirichlet parameter; a small value gives dissimilar parties."
        ),
    ] = 1,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; the same seed gives the same split.")
    ] = 0,
    text: Annotated[str, typer.Option(help="Column of the text.")] = "text",
    label: Annotated[str, typer.Option(help="Column of the label.")] = "label",
    person: Annotated[
        str | None, typer.Option(help="Column of the person; a person's rows stay together.")
    ] = None,
    take: Annotated[
        int | None,
        typer.Option(min=1, help="Number of rows, each class in its proportion. Default: all."),
    ] = None,
    class_alpha: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=10,
            help="Dirichlet parameter of unbalanced classes of --take rows. Default: as they are.",
        ),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(min=0, help="Cap of every party: total epsilon of all runs; inf: no cap."),
    ] = 4,
    embedder: Annotated[
        str, typer.Option(help="Embedding model as CONNECTOR:MODEL.")
    ] = "sentence_transformers:embedded",
    colluding: Annotated[
        int, typer.Option(min=0, help="Colluding parties that every run must tolerate.")
    ] = 1,
) -> Output:
    """Split rows among parties by a Dirichlet draw per class, for experiments."""
    from connectors.interfaces.rows import RowsRef
    from flows.federation.local_parties import partition as split_rows
    from tasks.private.parties.partition import Partition

    # Unbalanced classes are drawn from more rows than are used.
    if class_alpha is not None and take is None:
        raise ConfigError("--class-alpha: needs the number of rows to draw. Add --take N.")
    source = RowsRef(
        rows, text, label, person=person, rows=take, seed=seed, class_alpha=class_alpha
    )
    parts = split_rows(
        source, folder, Partition(parties, alpha, seed, epsilon, embedder, colluding)
    )
    return Output(parts, lambda value: f"{value['folder']}: {', '.join(value['parties'])}")
