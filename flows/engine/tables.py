"""Turn tables of other libraries into a DataFrame: Arrow, datasets, polars, DuckDB, lists of dictionaries."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

SUPPORTED = "a path, a database URL, a list of dictionaries, or a table of pandas, pyarrow, datasets, polars or DuckDB"


def converter_of(rows: object) -> Callable[[], pd.DataFrame]:
    """Return a function that returns the rows as a DataFrame; its errors may quote cells.

    Raises:
        TypeError: the rows are no table. The message contains none of them.
    """
    value: Any = rows
    if isinstance(rows, pd.DataFrame):
        return lambda: value
    # Of the library datasets, without importing it: the columns of classes have names there.
    if hasattr(rows, "features") and hasattr(rows, "to_pandas"):
        return lambda: _named_classes(value)
    # The Arrow stream of pyarrow, polars and DuckDB. pandas' own Series has it, too, but is one column.
    if hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pd.Series):
        return lambda: _of_arrow(pa.table(value))
    if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
        return lambda: pd.DataFrame(value)
    advice = ""
    if hasattr(rows, "collect") and hasattr(rows, "lazy"):
        advice = ". Write rows.collect()"
    elif isinstance(rows, Mapping):
        advice = ". Use one of its parts, such as rows['train'], or pandas.DataFrame(rows)"
    raise TypeError(f"rows: {type(rows).__name__} is not supported. Use {SUPPORTED}{advice}")


def _of_arrow(table: pa.Table) -> pd.DataFrame:
    # With types of Arrow: a missing label would turn integer ones into floats.
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def _named_classes(rows: Any) -> pd.DataFrame:
    """Return a table of datasets; a column of classes has their names in place of their numbers."""
    frame: pd.DataFrame = rows.to_pandas()
    for column, feature in rows.features.items():
        names = getattr(feature, "names", None)
        if isinstance(names, list):
            # -1 and None are a missing class there.
            by_number = dict(enumerate(names))
            frame[column] = frame[column].map(by_number.get)
    return frame
