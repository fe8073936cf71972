"""From fetched files to the tables and Parquet files of a recipe."""

from collections.abc import Callable, Iterator
from pathlib import Path

from connectors.artifacts.atomic_files import write_whole
from connectors.interfaces.errors import ConfigError, InputError
from flows.data.recipes import Recipe, Source
from flows.data.rows import Rows, aligned, digest_of
from flows.data.steps import apply_step

ReadSource = Callable[[Source], Rows]
"""Returns the rows of all files of a source."""


def build_tables(recipe: Recipe, read: ReadSource) -> dict[str, Rows]:
    """Return all tables of a recipe; ConfigError names the table and step that do not fit the rows."""
    tables: dict[str, Rows] = {}
    for name, steps in recipe.tables.items():
        rows: Rows = []
        for number, step in enumerate(steps, 1):
            if step.read is not None:
                rows = aligned([*rows, *read(recipe.sources[step.read])])
                continue
            try:
                rows = apply_step(step, rows, tables)
            except ConfigError as error:
                raise ConfigError(
                    f"tables.{name}, step {number} ({step.kind}): {error}. Correct the recipe"
                ) from error
        tables[name] = rows
    return tables


def write_rows(path: Path, rows: Rows) -> None:
    """Write rows to a Parquet file, whole or not at all; ConfigError for a column of texts and numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    except (pa.ArrowException, ValueError) as error:
        raise ConfigError(f"{path}: its rows fit no table ({error}). Correct the recipe") from error
    write_whole(path, lambda file: pq.write_table(table, file, compression="zstd"))


def file_digest(path: Path) -> tuple[str, int]:
    """Return the digest of the rows of a Parquet file, and their number; InputError if it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: is not a readable Parquet file ({error}). Remove it") from error
    return digest_of(table.to_pylist(), table.column_names), table.num_rows


def check_outputs(recipe: Recipe, tables: dict[str, Rows]) -> Iterator[tuple[str, str]]:
    """Yield each output path with the digest of its rows.

    InputError, before any file is written, if rows differ from those that the recipe states.
    """
    for path, output in recipe.outputs.items():
        rows = tables[output.table]
        if not rows:
            raise InputError(f"{path}: the preparation leaves no row. Correct the recipe")
        digest = digest_of(rows, list(rows[0]))
        expected = output.digest
        if output.rows is not None and len(rows) != output.rows:
            raise InputError(
                f"{path}: the preparation yields {len(rows)} rows, the recipe states {output.rows}. Correct the recipe"
            )
        if expected is not None and digest != expected:
            raise InputError(
                f"{path}: the rows have digest {digest}, the recipe states {expected}. Correct the recipe, or use the "
                "version that it was written for"
            )
        yield path, digest
