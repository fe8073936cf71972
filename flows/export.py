"""The bundle that may leave: synthetic rows, student and a privacy statement, and nothing that noise did not cover."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.base import ArtifactError, ConfigError, LedgerError
from flows.removal import lost
from flows.tools import open_ledger

if TYPE_CHECKING:
    from connectors.artifacts import Artifacts

SHARED = ("run_id", "flow", "task", "n_synthetic", "accuracy", "macro_f1", "epsilon_spent", "delta", "releases")


def export_run(home: Path, artifacts: Artifacts, book: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the bundle of a finished run into `folder`, which must be new or empty.

    Raises ConfigError for an unfinished or not private run and LedgerError when the budget book does not verify.
    """
    run = f"runs/{book['run_id']}"
    summary, gone = _shareable(artifacts, book), lost(home, book["run_id"])
    if gone is not None and gone.result:
        raise ArtifactError(
            f"Run {book['run_id']} has no result to export: {gone}. To make it again: "
            f"wasp resume {book['run_id']} --respend"
        )
    problems = open_ledger(home).verify(book["dataset"])
    if problems:
        raise LedgerError("The budget book does not verify, so nothing is exported: " + "; ".join(problems))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: exists and is not an empty folder; name a new one")
    rows, student = artifacts.fetch(f"{run}/synthetic.parquet"), artifacts.fetch(f"{run}/student")
    folder.mkdir(parents=True, exist_ok=True)
    _copy_rows(rows, folder)
    shutil.copytree(student, folder / "student")
    card = {key: summary[key] for key in SHARED}
    (folder / "summary.json").write_text(json.dumps(card, indent=2), encoding="utf-8")
    (folder / "README.md").write_text(_statement(summary, book), encoding="utf-8")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {"run_id": book["run_id"], "folder": str(folder), "files": files}


def _shareable(artifacts: Artifacts, book: dict[str, Any]) -> dict[str, Any]:
    text = artifacts.read_text(f"runs/{book['run_id']}/summary.json")
    if book["state"] != "done" or text is None:
        raise ConfigError(f"Run {book['run_id']} is not finished; type: wasp resume {book['run_id']}")
    summary: dict[str, Any] = json.loads(text)
    if summary["epsilon_spent"] is None:
        raise ConfigError(f"Run {book['run_id']} is NOT PRIVATE (no noise was added); it cannot be exported")
    return summary


def _copy_rows(file: Path, folder: Path) -> None:
    import pandas as pd

    rows = pd.read_parquet(file, partitioning=None)
    rows = rows[["sample_id", "text", "label", "attribute", "plm", "iteration"]]
    rows.to_parquet(folder / "synthetic.parquet", compression="zstd", index=False)
    rows.to_json(folder / "synthetic.jsonl", orient="records", lines=True, force_ascii=False)


def _statement(summary: dict[str, Any], book: dict[str, Any]) -> str:
    adjacency, protects = book["plan"]["adjacency"], book["plan"]["protects"]
    whom = "one record" if protects == "record" else f"one {protects}"
    unit = f"adding or removing {whom}" if adjacency == "add_remove" else f"replacing {whom} by another"
    return f"""# Synthetic texts: {summary["task"]}

{summary["n_synthetic"]} texts written by language models ({", ".join(book["plan"]["models"])}) that were guided by
private records under differential privacy.

## Privacy statement
- Epsilon {summary["epsilon_spent"]:.4f} at delta {summary["delta"]:g}, protecting {unit}, spent in
  {summary["releases"]} noisy releases by this run alone. Other runs on the same records add to it.
- Mechanism: discrete Gaussian noise on integer votes, calibration {book["plan"]["calibration"]}.
- No text of the private records was shown to a language model; they only voted on synthetic texts.

## Limits
- What a language model memorised from its own training is outside this promise.
- Test rows used to measure accuracy are not protected.
- Texts are synthetic: facts in them are invented and may be wrong or biased.
"""
