"""Methods that vary texts: where several tasks vary the texts of a model, each variation and id exists once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.artifacts import StepKey
from flows.catalog import find_flow
from flows.config.files import check_config
from flows.engine.prepare import prepare
from flows.engine.run import Run
from flows.methods.aug_pe.run import AugPeRun
from flows.methods.pre_text.run import PreTextRun
from flows.runtime.manifest import RunManifest
from tasks.guidance.evolution import SURVIVORS, look_ahead
from tasks.steps.values import TextTable
from tasks.writing.generate import WriteJob
from tasks.writing.texts import embed_samples, write_samples
from tests.support.runs.pipeline import values

RUNS: dict[str, type[Run]] = {"aug_pe": AugPeRun, "pre_text": PreTextRun}


def opened(home: Path, method: str) -> Any:
    config = check_config(find_flow(method).config, values(method), "the test")
    prepared = prepare(method, config, home)
    return RUNS[method](prepared, RunManifest(prepared.tools.artifacts, {}), 0.0)


def divide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.writing.generate.TASK_TEXTS", 5)


def written(run: Run, jobs: Sequence[WriteJob]) -> list[TextTable]:
    """Do the steps of jobs, each at a path that no other has."""
    tables = []
    for job in jobs:
        ref, _ = write_samples(run.tools, job)
        table = TextTable(job.plm, job.iteration, ref, part=job.part)
        tables.append(embed_samples(run.tools, table)[0])
    assert len({table.samples.path for table in tables}) == len(jobs)
    return tables


def population_of(run: Run) -> list[TextTable]:
    return written(run, run.write_jobs(0, run.equal_weights(), None, ()))


def survivors_of(run: Run, population: Sequence[TextTable]) -> TextTable:
    """Return all texts of a population as survivors, every third of them drawn twice."""
    table = rows(run, population)
    table["times"] = [1 + (number % 3 == 0) for number in range(len(table))]
    ref = run.tools.artifacts.write_table(
        f"runs/{run.tools.run_id}/iteration=0/survivors.parquet", table, StepKey("survive", 1)
    )
    return TextTable(SURVIVORS, 0, ref)


def rows(run: Run, tables: Sequence[TextTable]) -> pd.DataFrame:
    read = [run.tools.artifacts.read_table(table.samples) for table in tables]
    return pd.concat(read, ignore_index=True)


def first_prompts(run: Run, tables: Sequence[TextTable]) -> list[str]:
    """Return the keys of the prompts of all first rounds; later rounds replace rejected texts."""
    keys = []
    for table in tables:
        path = run.tools.artifacts.where(table.samples.path.replace("samples", "prompts"))
        prompts = pd.read_parquet(path)
        keys += prompts.loc[prompts["attempt"] == 0, "prompt_key"].tolist()
    return keys


def variations_of_survivors(run: Any, population: Sequence[TextTable]) -> list[TextTable]:
    drawn = survivors_of(run, population)
    if isinstance(run, PreTextRun):
        return written(run, run.children_jobs(1, drawn))
    return written(run, run.children_jobs(1, [drawn]))


@pytest.mark.parametrize("method", RUNS)
def test_tasks_vary_survivors_like_one_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    whole = opened(tmp_path / "whole", method)
    expected_tables = variations_of_survivors(whole, population_of(whole))
    expected = rows(whole, expected_tables)
    divided = opened(tmp_path / "divided", method)
    population = population_of(divided)
    divide(monkeypatch)
    tables = variations_of_survivors(divided, population)
    made = rows(divided, tables)
    assert len(tables) > len(expected_tables)
    assert sorted(made["sample_id"]) == sorted(expected["sample_id"])
    columns = ["label", "plm"]
    assert made.value_counts(columns).to_dict() == expected.value_counts(columns).to_dict()
    assert sorted(first_prompts(divided, tables)) == sorted(first_prompts(whole, expected_tables))


def test_every_text_of_a_divided_population_is_varied_as_often_as_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    divide(monkeypatch)
    run = opened(tmp_path / "home", "aug_pe")
    population = population_of(run)
    children = written(run, run.children_jobs(0, population))
    assert len(population) > len(run.plms)
    every = rows(run, [*population, *children])
    assert every["sample_id"].is_unique
    prompts = first_prompts(run, children)
    parents = rows(run, population)
    assert len(set(prompts)) == len(prompts) == len(parents) * run.config.method.variations
    assert set(rows(run, children)["parent_id"]) <= set(parents["sample_id"])


def test_each_vector_of_a_divided_look_ahead_is_the_mean_of_its_variations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    divide(monkeypatch)
    run = opened(tmp_path / "home", "pre_text")
    paths = list[str]()
    for table in population_of(run):
        ahead = written(run, run.look_ahead_jobs(0, table))
        votable, _ = look_ahead(run.tools, table, ahead)
        variations = rows(run, ahead)
        vectors = np.concatenate([run.tools.artifacts.read_matrix(part.vectors) for part in ahead])
        means = run.tools.artifacts.read_matrix(votable.vectors)
        for sample_id, mean in zip(rows(run, [table])["sample_id"], means, strict=True):
            own = vectors[variations["parent_id"] == sample_id]
            assert mean == pytest.approx(own.mean(axis=0), abs=1e-6)
        paths += [*(part.samples.path for part in ahead), votable.vectors.path]
    assert len(paths) == len(set(paths))
