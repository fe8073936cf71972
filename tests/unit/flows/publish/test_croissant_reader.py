"""Columns and digests that mlcroissant reads: why bundles are Parquet with digests in lower case."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

mlcroissant = pytest.importorskip("mlcroissant")

CROISSANT = "http://mlcommons.org/croissant/"
NAMES = (
    "citeAs",
    "column",
    "extract",
    "field",
    "fileObject",
    "recordSet",
    "source",
)


def flags(folder: Path, rows: tuple[str, ...], is_upper: bool = False) -> list[Any]:
    """Return a column of truth values of a CSV file as mlcroissant reads it."""
    (folder / "rows.csv").write_text("\n".join(["flag,number", *(f"{row},1" for row in rows)]))
    digest = hashlib.sha256((folder / "rows.csv").read_bytes()).hexdigest()
    source = {"fileObject": {"@id": "file"}, "extract": {"column": "flag"}}
    field = {"@type": "cr:Field", "@id": "rows/flag", "name": "flag", "dataType": "sc:Boolean"}
    described = {
        "@context": {
            "@language": "en",
            "@vocab": "https://schema.org/",
            "sc": "https://schema.org/",
            "cr": CROISSANT,
            "conformsTo": "dct:conformsTo",
            "dct": "http://purl.org/dc/terms/",
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
            **{name: f"cr:{name}" for name in NAMES},
        },
        "@type": "sc:Dataset",
        "name": "rows",
        "description": "Rows.",
        "conformsTo": f"{CROISSANT}1.0",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": "file",
                "name": "file",
                "contentUrl": "rows.csv",
                "encodingFormat": "text/csv",
                "sha256": digest.upper() if is_upper else digest,
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "field": [field | {"source": source}],
            }
        ],
    }
    (folder / "croissant.json").write_text(json.dumps(described))
    records = mlcroissant.Dataset(folder / "croissant.json").records("rows")
    return [record["rows/flag"] for record in records]


def test_the_text_false_is_true_in_a_column_with_other_texts(tmp_path: Path) -> None:
    assert flags(tmp_path, ("True", "False")) == [True, False]
    assert flags(tmp_path, ("yes", "False", "no")) == [True, True, True]


def test_a_digest_in_capital_letters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(mlcroissant.GenerationError):
        flags(tmp_path, ("True", "False"), is_upper=True)
