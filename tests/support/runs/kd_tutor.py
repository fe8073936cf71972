"""A run of `kd_tutor` on a few rows, opened in this process, and the texts that its models write."""

import random
from pathlib import Path
from typing import Any

from flows.config.files import check_config
from flows.engine.prepare import prepare
from flows.engine.run import Run
from flows.engine.run_manifest import open_manifest
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.methods.kd_tutor.run import KdRun
from tasks.steps.values import TextTable
from tasks.writing.texts import embed_samples, write_samples
from tests.support.data.short_texts import LABELS, WORDS, save_rows
from tests.support.runs.pipeline import SMALL, merged
from tests.support.runs.prepared_run import lift_cap


def texts(number: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [
        (" ".join(draw.choices(WORDS, k=draw.randint(4, 8))), draw.choice(LABELS))
        for _ in range(number)
    ]


def opened(folder: Path, private: list[tuple[str, str]] | None = None, **changes: Any) -> KdRun:
    rows = folder / "rows.jsonl"
    if not rows.exists():
        save_rows(rows, private or texts(40, 1))
    values: dict[str, Any] = {
        **{name: SMALL[name] for name in ("task", "plms", "student", "execution")},
        "private": {"path": str(rows), "name": "desk"},
        "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 32}},
        "method": {"samples": 24, "written": 48},
        "discriminator": {"teachers": 4, "queries": 20},
    }
    prepared = prepare(
        "kd_tutor",
        check_config(KdTutorConfig, merged(values, changes), "the test"),
        folder / "home",
    )
    name = lift_cap(prepared).tools.run_name
    prepared.tools.ledger.reserve(name.dataset, prepared.plan, "the test")
    return KdRun(prepared, open_manifest("kd_tutor", prepared), 0.0)


def written_by(run: Run) -> list[TextTable]:
    """Write the texts of the first iteration and embed them."""
    made = []
    for job in run.write_jobs(0, run.equal_weights(), None, ()):
        samples, _ = write_samples(run.tools, job)
        down = run.tools.artifacts.info(samples)["down"]
        made.append(embed_samples(run.tools, TextTable(job.plm, 0, samples, down=down))[0])
    return made
