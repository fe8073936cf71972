"""Packages of others, installed as pip does, and the command that finds them."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import ROOT


def install(folder: Path, module: str, source: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """Write a package of one module with its entry points by group."""
    metadata = folder / f"{module}-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 0.1.0\n")
    groups = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items()) for group, named in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    importlib.invalidate_caches()


def wasp(folder: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the packages of a folder."""
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "WASP_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "flows.cli.main", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)


def written(path: Path, values: dict[str, Any]) -> str:
    """Write a configuration; return its path."""
    path.write_text(yaml.safe_dump(values))
    return str(path)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the object that a successful command printed."""
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return value
