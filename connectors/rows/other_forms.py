"""Explain files and JSON values that are no table of texts, with what to write instead.

People export their records from spreadsheets, notebooks and web services. A message about such a file names the form
that it has and the form that is read. It names keys and columns, never a value.
"""

from collections.abc import Mapping, Sequence

from connectors.interfaces.errors import InputError

KNOWN = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
EXCEL = (".xlsx", ".xlsm")
SUFFIXES = f"Supported suffixes: {', '.join(KNOWN)} (and .gz), {', '.join(EXCEL)}."
UNREAD = {
    "a spreadsheet. Save it as .xlsx, or the sheet with the rows as CSV (UTF-8)": ".xls .xlsb .ods .numbers",
    "a document. Write one text per row into a CSV (UTF-8), JSON Lines or Parquet file": (
        ".docx .doc .odt .pages .rtf .pdf .txt .md .html .htm .xml .eml .mbox"
    ),
    "an archive. Unpack it, and name the file in it": ".zip .tar .tgz .7z .rar .bz2 .xz .zst",
    "a database. Write its address, such as sqlite:///FILE, with a query": ".db .sqlite .sqlite3 .duckdb",
    "a table of another program. Write it as CSV (UTF-8) or Parquet": (
        ".sav .dta .sas7bdat .xpt .rds .rdata .feather .arrow .orc .avro .pkl .pickle .h5 .npy .npz .mdb .accdb"
    ),
}
"""Kinds of files that are not read, with what to do, and their suffixes."""
ONE_OBJECT_PER_ROW = (
    "Write one object per row: DataFrame.to_json(FILE, orient='records', lines=True)."
)
ONE_TEXT_PER_ROW = (
    "Write one text per row in a column of its own; pandas.json_normalize does so for nested JSON."
)
ONE_LABEL = (
    "A record has one class: keep its first label, or make one column of yes and no for each label and one run for "
    "each column"
)
"""Advice on several labels in one cell."""
MAX_KEYS = 5


def advice_on(is_label: bool) -> str:
    """Return what to do about cells of objects or lists in the column of the labels, or of the texts or persons."""
    if is_label:
        return f"{ONE_LABEL}."
    return ONE_TEXT_PER_ROW


def explain_suffix(suffix: str) -> str:
    """Return what a file with a suffix that is not read probably is, and what to do."""
    kind = next((kind for kind, suffixes in UNREAD.items() if suffix in suffixes.split()), "")
    if not kind:
        return f"unknown kind of file. {SUFFIXES}"
    return f"this is {kind}. {SUFFIXES}"


def describe_value(value: object) -> str:
    """Return the kind of a value that is no text; of an object its keys."""
    if isinstance(value, Mapping):
        return f"an object with {list_keys(value)}"
    if isinstance(value, (list, tuple, set)) or hasattr(value, "__array__"):
        return "a list"
    if isinstance(value, bytes):
        return "bytes"
    return "a single value"


def list_keys(value: Mapping[str, object]) -> str:
    """Return the first keys of an object, for messages."""
    keys = ", ".join(f"'{key}'" for key in list(value)[:MAX_KEYS])
    if not keys:
        return "no keys"
    if len(value) > MAX_KEYS:
        return f"the keys {keys} and more"
    return f"the keys {keys}"


def refuse_one_object(value: object, required: Sequence[str], name: str) -> None:
    """Raise InputError if the only object of a file contains the rows, instead of being one.

    pandas writes one object of columns by default, web services put the rows under a key.

    Args:
        value: the only JSON value of the file.
        required: columns of the configuration; an object that has a plain value for each is a row.
        name: the file, for the message.
    """
    if not isinstance(value, Mapping):
        return
    holders = {key: part for key, part in value.items() if isinstance(part, (Mapping, list))}
    is_row = bool(required) and all(
        column in value and column not in holders for column in required
    )
    if not holders or is_row:
        return
    rows = [
        key
        for key, part in holders.items()
        if isinstance(part, list) and part and isinstance(part[0], Mapping)
    ]
    advice = ONE_OBJECT_PER_ROW
    if rows:
        advice = f"Write the list of '{rows[0]}' as a file of its own."
    raise InputError(
        f"{name}: contains one object with {list_keys(value)}, not one object per row. {advice}"
    )
