"""Tables and matrices as Parquet, with deterministic bytes and checked hashes.

Vectors are stored exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from connectors.artifacts.columns import DESCRIPTIONS
from connectors.artifacts.manifests import require_content
from connectors.interfaces.errors import ArtifactError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from connectors.interfaces.embedding import Matrix

PATH_COLUMNS = b"wasp.path_columns"
DTYPE = b"wasp.dtype"
DIMENSION = b"wasp.dimension"


def to_arrow(table: pd.DataFrame, path: str) -> pa.Table:
    """Return the Arrow table of a frame, without its index and the columns in `path`.

    All pandas text types become one Arrow type, and pandas' metadata (with its version) is dropped. Otherwise equal
    tables would have different bytes. Each known column has its description.
    """
    import pyarrow as pa

    try:
        arrow = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise ArtifactError(
            f"The table for {path} cannot be written as Parquet: {error}"
        ) from error
    plain = []
    for column in arrow.schema:
        if pa.types.is_large_string(column.type):
            column = column.with_type(pa.string())
        if text := DESCRIPTIONS.get(column.name):
            column = column.with_metadata({"description": text})
        plain.append(column)
    return _without_path_columns(arrow.cast(pa.schema(plain)), path)


def _without_path_columns(arrow: pa.Table, path: str) -> pa.Table:
    import pyarrow as pa

    in_path = dict(part.split("=", 1) for part in PurePosixPath(path).parts[:-1] if "=" in part)
    kinds = {pa.int64(): int, pa.string(): str}
    path_columns = []
    for position, field in enumerate(arrow.schema):
        kind = kinds.get(field.type)
        if kind is None or field.name not in in_path:
            continue
        values = arrow.column(position).unique().to_pylist()
        # An empty table has no values to compare, but its schema must match the others of the run.
        if {str(value) for value in values} <= {in_path[field.name]} and None not in values:
            path_columns.append(
                {"name": field.name, "position": position, "value": kind(in_path[field.name])}
            )
    if not path_columns:
        return arrow
    arrow = arrow.drop_columns([column["name"] for column in path_columns])
    return arrow.replace_schema_metadata({PATH_COLUMNS: json.dumps(path_columns).encode()})


def read_frame(path: Path, sha256: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a table, or some of its columns, and restore the columns of its path."""
    arrow = _arrow(path, sha256, columns)
    frame: pd.DataFrame = arrow.to_pandas()
    metadata = (arrow.schema.metadata or {}).get(PATH_COLUMNS, b"[]")
    # In the order of their positions, each of which counts the columns before it.
    for column in json.loads(metadata):
        if columns is None:
            frame.insert(column["position"], column["name"], column["value"])
        elif column["name"] in columns:
            frame[column["name"]] = column["value"]
    if columns is not None:
        frame = frame[list(columns)]
    return frame


def write_matrix(blocks: Iterable[Matrix], file: BinaryIO) -> tuple[int, int]:
    """Write blocks of vectors, shape (rows, dimension), in sequence; return the shape.

    Format: one column of bytes, dtype and dimension in the metadata. It is written 6 to 10 times and read 18 to 20
    times as fast as lists of numbers. Vectors hardly compress, so they are not compressed. Each block is released after
    it is written.
    """
    import pyarrow.parquet as pq

    rows = 0
    dimension = 0
    writer = None
    try:
        for block in blocks:
            table = _column(block)
            if writer is None:
                dimension = block.shape[1]
                plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
                writer = pq.ParquetWriter(file, table.schema, **plain)
            if len(block) or not rows:
                writer.write_table(table, row_group_size=max(1, len(block)))
            rows += len(block)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise ArtifactError("No block of vectors to write: their dimension is unknown.")
    return rows, dimension


def _column(matrix: Matrix) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    rows, dimension = matrix.shape
    # Little-endian on every machine, because equal vectors must have equal bytes.
    contiguous = np.ascontiguousarray(matrix, dtype="<f4")
    column = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(4 * dimension), rows, [None, pa.py_buffer(contiguous)]
    )
    metadata = {DTYPE: b"float32", DIMENSION: str(dimension).encode()}
    return pa.table({"vector": column}).replace_schema_metadata(metadata)


def read_matrix(path: Path, sha256: str) -> Matrix:
    """Read vectors, shape (rows, dimension), as read-only float32."""
    import numpy as np

    rows = 0
    matrix: Matrix | None = None
    for block, total in _blocks(path, sha256):
        if len(block) == total:  # a single block is not copied
            matrix = block
        elif matrix is None:
            matrix = np.empty((total, block.shape[1]), np.float32)
        if matrix is not block:
            matrix[rows : rows + len(block)] = block
        rows += len(block)
    assert matrix is not None, "vectors have at least one block, which states their dimension"
    matrix.flags.writeable = False
    return matrix


def read_blocks(path: Path, sha256: str) -> Iterator[Matrix]:
    """Yield vectors in the order of their rows, in read-only blocks; at least one, of no rows if there are none."""
    for block, _ in _blocks(path, sha256):
        yield block


def _blocks(path: Path, sha256: str) -> Iterator[tuple[Matrix, int]]:
    """Yield the blocks in which vectors were written, each with the number of all rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_content(path, sha256)
    with pa.memory_map(str(path)) as mapped:
        file = pq.ParquetFile(mapped)
        metadata = file.schema_arrow.metadata or {}
        if metadata.get(DTYPE) != b"float32":
            raise ArtifactError(f"{path} does not contain vectors.")
        dimension = int(metadata[DIMENSION])
        total = file.metadata.num_rows
        if not total:
            yield np.empty((0, dimension), np.float32), total
        for group in range(file.metadata.num_row_groups):
            column = file.read_row_group(group).column("vector")
            if not len(column):
                continue
            block = _vectors(column.combine_chunks(), dimension)
            block.flags.writeable = False
            yield block, total
    require_content(path, sha256)  # another writer could have replaced the file during reading


def _vectors(chunk: pa.FixedSizeBinaryArray, dimension: int) -> Matrix:
    """Return the vectors of a chunk of the column without copying."""
    import numpy as np

    flat = np.frombuffer(
        chunk.buffers()[1], dtype="<f4", count=(chunk.offset + len(chunk)) * dimension
    )
    vectors: Matrix = flat[chunk.offset * dimension :].reshape(len(chunk), dimension)
    return vectors


def _arrow(path: Path, sha256: str, columns: Sequence[str] | None = None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_content(path, sha256)
    # Not read_table: it would add the columns of the path itself.
    with pa.memory_map(str(path)) as mapped:
        file = pq.ParquetFile(mapped)
        if columns is not None:
            # The columns of the path are not in the file.
            columns = [name for name in columns if name in file.schema_arrow.names]
        arrow = file.read(columns)
    require_content(path, sha256)  # another writer could have replaced the file during reading
    return arrow
