"""The gate before an export: what a bundle says about private rows follows from manifest and ledger, not from files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.errors import ArtifactError, ConfigError
from flows.engine.prepare import Prepared
from flows.engine.run_manifest import open_manifest
from flows.engine.spending import RELEASES
from flows.publish.export import write_json_lines
from flows.publish.gate import search
from flows.runtime.manifest import read_manifest
from tasks.private.votes.step import VoteSpec, vote
from tasks.steps.values import ChargedDataset
from tests.support.data.short_texts import rows, save_rows
from tests.support.runs.federation import open_federated
from tests.support.runs.prepared_run import LABELS, start, write_texts


def remove_releases(run: Prepared) -> None:
    """Remove the files of a run's releases, and what describes them."""
    home, paths = (
        run.tools.home,
        run.tools.artifacts.finished(RELEASES.replace("*", run.tools.run_id, 1)),
    )
    assert paths
    for path in paths:
        for file in (home / path).parent.glob("*release.parquet*"):
            file.unlink()


def searched(run: Prepared, **changes: str) -> object:
    artifacts = run.tools.artifacts
    manifest = read_manifest(artifacts, run.tools.run_id) | changes
    return search(
        run.tools.home, artifacts, manifest, pd.DataFrame({"sample_id": [0], "text": ["a text"]})
    )


@pytest.fixture
def voted(tmp_path: Path) -> Prepared:
    """A run whose private rows have voted once."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    run = start(
        home, private=save_rows(tmp_path / "rows.jsonl", rows(20, seed=1)) | {"name": "desk"}
    )
    name = run.tools.run_name
    run.tools.ledger.reserve(name.dataset, run.plan, "me")
    spec = VoteSpec(0, ChargedDataset(name.dataset, name.fingerprint), run.guarantee.noise, "all")
    vote(run.tools, spec, [write_texts(run, 0, LABELS)])
    open_manifest("wasp", run).update()
    return run


def test_a_run_without_its_releases_is_an_error_and_not_one_that_opened_no_private_row(
    voted: Prepared,
) -> None:
    assert searched(voted) is not None
    assert searched(voted, dataset="") is None
    remove_releases(voted)
    with pytest.raises(
        ArtifactError, match=r"opened private rows of dataset 'desk'.*missing.*wasp resume"
    ):
        searched(voted)


def test_a_federated_run_without_its_releases_is_not_one_that_opened_no_private_row(
    tmp_path: Path,
) -> None:
    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    federated.vote()
    open_manifest("wasp", federated.run).update()
    remove_releases(federated.run)
    with pytest.raises(ConfigError, match="only the parties of run"):
        searched(federated.run)


def test_json_lines_have_the_numbers_and_texts_of_the_parquet_file(tmp_path: Path) -> None:
    texts = ['a "quote" / slash\nline\u2028', "ä\t\\"]
    frame = pd.DataFrame(
        {"sample_id": [0, 1], "text": texts, "label_soft": [[1 / 3, 2 / 3], [1e-12, 1 - 1e-12]]}
    )
    write_json_lines(tmp_path / "rows.jsonl", frame)
    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert [json.loads(line) for line in lines] == frame.to_dict("records")
    narrow = frame.assign(
        label_soft=[np.array(row, dtype=np.float32) for row in frame["label_soft"]]
    )
    write_json_lines(tmp_path / "narrow.jsonl", narrow)
    again = pd.read_json(tmp_path / "narrow.jsonl", lines=True, precise_float=True)
    assert again["label_soft"].tolist() == [row.tolist() for row in narrow["label_soft"]]
