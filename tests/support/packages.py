"""Packages of others, installed as pip does, and the command that finds them."""

import importlib
import os
from collections.abc import Mapping
from pathlib import Path

from tests.support.runs.pipeline import Pipeline


def install(
    folder: Path, module: str, source: str, points: Mapping[str, Mapping[str, str]]
) -> None:
    """Write a package of one module with its entry points by group."""
    metadata = folder / f"{module}-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 0.1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items())
        for group, named in points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    importlib.invalidate_caches()


def with_packages(folder: Path, home: Path) -> Pipeline:
    """Return the command with the packages of a folder."""
    return Pipeline(
        home, extra={"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    )
