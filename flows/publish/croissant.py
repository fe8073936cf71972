"""Describe a bundle in Croissant 1.0 (MLCommons.

Docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from connectors.artifacts.atomic_files import file_sha256
from flows.publish.dataset_card import BundleFacts
from tasks.reporting.text import uncovered

_TYPES: Final = {"text": "sc:Text", "integer": "sc:Integer", "numbers": "sc:Float"}
_FORMATS: Final = {"synthetic.parquet": "application/x-parquet", "synthetic.jsonl": "application/jsonlines"}
_TERMS: Final = (
    "citeAs column equivalentProperty extract field fileProperty fileObject fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)


def croissant(facts: BundleFacts, folder: Path) -> dict[str, Any]:
    """Return croissant.json (files, record set, fields) of a bundle with rows."""
    return {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": f"{facts.card.name}-synthetic",
        "description": f"{facts.title}. {facts.report.n_synthetic} texts {facts.made_how}; see README.md.",
        "license": facts.license,
        "url": f"urn:wasp:{facts.report.run_id}",
        "version": "1.0.0",
        "datePublished": facts.made,
        "citeAs": f"{facts.title}, run {facts.report.run_id}, {facts.made[:10]}",
        "inLanguage": facts.card.language,
        "keywords": ["synthetic", *(["differential privacy"] if facts.report.opens_rows else [])],
        "rai:dataCollection": f"{facts.made_how[:1].upper()}{facts.made_how[1:]}.",
        "rai:dataLimitations": [f"Not covered by the privacy guarantee: {limit}." for limit in uncovered(facts.report)],
        "rai:personalSensitiveInformation": (
            f"Differential privacy: epsilon {facts.report.epsilon_spent or 0.0:.4f}, delta "
            f"{facts.report.delta:g}, {facts.unit}."
            if facts.report.opens_rows
            else "No private rows were opened."
        ),
        "distribution": [_file(folder, name, encoding) for name, encoding in _FORMATS.items()],
        "recordSet": [_records(facts)],
    }


def _context() -> dict[str, Any]:
    terms: dict[str, Any] = {name: f"cr:{name}" for name in _TERMS.split()}
    return terms | {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
    }


def _file(folder: Path, name: str, encoding: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{(folder / name).stat().st_size} B",
        "encodingFormat": encoding,
        "sha256": file_sha256(folder / name),
    }


def _records(facts: BundleFacts) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": "texts",
        "name": "texts",
        "description": "One record per synthetic text.",
        "key": {"@id": "texts/sample_id"},
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"texts/{name}",
                "name": name,
                "description": meaning,
                "dataType": _TYPES[kind],
                "source": {"fileObject": {"@id": "synthetic.parquet"}, "extract": {"column": name}},
                **({"repeated": True} if kind == "numbers" else {}),
            }
            for name, (kind, meaning) in facts.columns.items()
        ],
    }
