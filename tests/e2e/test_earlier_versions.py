"""State folders of earlier versions: their runs are resumed, repeated, shown and exported, and charged once."""

from pathlib import Path

import pytest

from tests.support.runs.pipeline import Pipeline
from tests.support.stored_states import VERSIONS, runs_of, unpack, votes_of_today

DATASET = "support-desk-demo"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_state_folder_of_an_earlier_version_is_resumed_repeated_and_verified(
    version: str, tmp_path: Path
) -> None:
    state = unpack(version, tmp_path)
    stopped, finished = runs_of(state)
    pipeline = Pipeline(state)
    before = pipeline.answer("budget", "show", DATASET)["datasets"][0]
    assert pipeline.answer("resume", stopped)["epsilon_spent"] == pytest.approx(4.0, abs=1e-6)
    charged = pipeline.answer("budget", "show", DATASET)["datasets"][0]
    assert (charged["releases"], charged["reserved"]) == (before["releases"] + 1, 0.0), (
        "only the release not yet paid"
    )
    config = tmp_path / "votes.yaml"
    config.write_text(votes_of_today(), encoding="utf-8")
    repeated = pipeline.answer("run", "wasp", "--config", str(config))
    assert (repeated["run_id"], repeated["state"]) == (stopped, "done")
    pipeline.answer("resume", finished)
    assert pipeline.answer("budget", "show", DATASET)["datasets"][0] == charged, (
        "nothing was charged twice"
    )
    pipeline.call("budget", "verify")
    pipeline.call("budget", "history", DATASET)
    for run_id in (stopped, finished):
        assert str(state) in pipeline.call("show", run_id).stdout
        page = Path(pipeline.answer("report", run_id)["report"]).read_text(encoding="utf-8")
        assert "/srv/wasp" not in page
    pipeline.call("export", stopped, str(tmp_path / "bundle"))
