"""Small configurations of the flows that WASP is compared with, beside tests.support.runs.pipeline."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.runs.pipeline import SMALL, Pipeline

FUSEGEN: dict[str, Any] = {
    **{name: SMALL[name] for name in ("task", "test", "plms", "embedder", "student", "execution")},
    "method": {"iterations": 3, "samples": 108, "examples": 4, "pool": 2, "judge": "linear", "boosts": 3},
}
"""FuseGen in a few seconds: linear students judge, and nothing private is named."""

ONLY_PRIVATE: dict[str, Any] = {
    **{name: SMALL[name] for name in ("task", "private", "test", "embedder")},
    "student": {"kind": "mlp"},
    "method": {"passes": 5},
}
"""A small network on hashed vectors of the private rows."""


def config_file(pipeline: Pipeline, values: dict[str, Any], **changes: Any) -> Path:
    """Write a configuration with `changes` of its groups; return its place."""
    found = json.loads(json.dumps(values))
    for name, change in changes.items():
        both = isinstance(change, dict) and isinstance(found.get(name), dict)
        found[name] = found[name] | change if both else change
    pipeline.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = pipeline.home.parent / f"{pipeline.home.name}-comparison.yaml"
    path.write_text(yaml.safe_dump(found), encoding="utf-8")
    return path
