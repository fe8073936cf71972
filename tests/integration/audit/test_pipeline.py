"""One whole run is attacked in a folder of its own: nothing of the user's is touched, and sabotage makes it red."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from connectors.interfaces.errors import AuditError, ConfigError
from flows.audit import pipeline as pipeline_audit
from flows.audit import text
from flows.audit.config import AuditConfig
from flows.audit.pipeline import PipelineTrial, pipeline_config, run_with_canaries, scratch
from flows.audit.run import planned
from flows.cli import commands
from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig
from tests.support.paths import ROOT
from tests.support.runs.audits import artifacts
from tests.support.runs.pipeline import SMALL, Pipeline, last_json

HERE = ROOT / "deployments" / "configs" / "audit_pipeline_here.yaml"
DESK = ROOT / "connectors" / "data" / "support_desk"

SABOTAGED = """
import sys
HOW = sys.argv.pop(1)
if HOW == "silent":
    import tasks.private.voting.votes
    tasks.private.voting.votes.add_discrete_gaussian = lambda values, sigma, non_private=False: values.copy()
if HOW == "leak":
    import pandas as pd, connectors.models.ngram.model as model, yaml
    from dataclasses import replace
    rows = pd.read_parquet(yaml.safe_load(open(sys.argv[sys.argv.index("--config") + 1]))["private"]["path"])
    texts, own = iter(rows["text"].tolist()[120:]), model.NgramModel._complete_one
    def answer(self, prompt):
        written = own(self, prompt)
        return replace(written, text=next(texts, written.text))
    model.NgramModel._complete_one = answer
if HOW == "fail":
    sys.exit("wasp: nothing works here")
from flows.cli.main import main
main()
"""


@pytest.fixture
def small(tmp_path: Path) -> AuditConfig:
    """The attack on a pipeline of two small models; with enough texts to hold what leaks."""
    values = SMALL | {"method": {"guidance": "votes", "iterations": 3, "samples": 600, "votes": 8, "examples": 4}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(values))
    whole = {"canaries": 600, "guesses": 250}
    return AuditConfig.model_validate({"wasp_config": str(tmp_path / "small.yaml"), "pipeline": whole})


def sabotage(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(pipeline_audit, "COMMAND", (sys.executable, "-c", SABOTAGED, how))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def carried_out(config: AuditConfig, home: Path) -> tuple[dict[str, Any], list[int]]:
    told: list[int] = []
    home.mkdir(mode=0o700)
    with scratch(home) as folder:
        trial = PipelineTrial(config, folder)
        found = trial.carry_out(told.append)
        assert sum(told) == trial.units
    return found, told


def of(found: dict[str, Any], what: str) -> dict[str, Any]:
    return next(one for one in found["attacks"] if one["what"] == what)


@pytest.mark.slow
@pytest.mark.statistical
def test_a_sound_run_passes_and_nothing_of_it_is_left(small: AuditConfig, tmp_path: Path) -> None:
    found, _ = carried_out(small, tmp_path / "home")
    assert found["passed"] is True
    assert found["epsilon_proven"] <= found["epsilon_claimed"] <= 4.0
    assert of(found, "noisy votes")["auc"] > 0.55
    assert of(found, "nearest text")["auc"] < 0.65
    assert list((tmp_path / "home").rglob("*")) == [tmp_path / "home" / "private"]
    json.dumps(found, allow_nan=False)


@pytest.mark.slow
def test_a_run_whose_votes_carry_no_noise_is_red(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch, "silent")
    found, _ = carried_out(small, tmp_path / "home")
    assert of(found, "noisy votes")["auc"] > 0.99
    assert found["passed"] is False
    assert found["epsilon_proven"] > 4.0
    assert of(found, "nearest text")["auc"] < 0.65, "the texts do not show it"


@pytest.mark.slow
def test_a_run_that_writes_what_it_read_is_red(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch, "leak")
    found, _ = carried_out(small, tmp_path / "home")
    for what in ("likelihood of the texts", "nearest text"):
        assert of(found, what)["auc"] > 0.95
        assert of(found, what)["interval"][0] > 0.9
    assert found["passed"] is False
    assert found["epsilon_proven"] > 4.0


def test_a_run_that_fails_says_why_and_leaves_nothing(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch, "fail")
    with pytest.raises(Exception, match="nothing was attacked: wasp: nothing works here"):
        carried_out(small, tmp_path / "home")
    assert list((tmp_path / "home").rglob("*")) == [tmp_path / "home" / "private"]


@pytest.mark.slow
@pytest.mark.statistical
def test_the_flow_shows_the_attack_and_touches_no_book_and_no_server_of_the_user(
    pipeline: Pipeline, small: AuditConfig, tmp_path: Path
) -> None:
    file = tmp_path / "audit.yaml"
    values = {"wasp_config": small.wasp_config, "calibrations": ["tight"], "trials": 50}
    file.write_text(yaml.safe_dump(values | {"pipeline": {"canaries": 300, "guesses": 100}}))
    done = pipeline.call("run", "audit", "-c", str(file), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    found = last_json(done.stdout)
    assert [one["what"] for one in found["pipeline"]["attacks"]] == [
        "noisy votes", "likelihood of the texts", "nearest text"
    ]  # fmt: skip
    assert not (pipeline.home / "ledger.db").exists()
    assert not [path for path in (pipeline.home / "private").rglob("*") if path.is_file()]
    assert {path.name for path in (pipeline.home / "runs").iterdir()} == {found["run_id"]}
    shown = artifacts(pipeline.api, found["prefect_run_id"])
    assert [row["mechanism"] for row in json.loads(shown["audit"])] == ["wasp tight", "whole run"]
    assert "AUC" in shown["audit-verdict"]
    assert shown["audit-canaries"].startswith("data:image/png;base64,")
    assert "whole run with canaries" in done.stderr


def test_the_end_of_the_audit_ends_the_run(small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_audit, "COMMAND", (sys.executable, "-c", "import time; time.sleep(300)"))
    (tmp_path / "home").mkdir()
    with ThreadPoolExecutor() as threads:
        with scratch(tmp_path / "home") as folder:
            waiting = threads.submit(run_with_canaries, small, folder, lambda units: None)
            while not pipeline_audit._RUNNING:
                time.sleep(0.05)
        assert isinstance(waiting.exception(timeout=30), AuditError)
    assert list((tmp_path / "home").rglob("*")) == [tmp_path / "home" / "private"]


def test_the_rows_that_vote_are_never_the_users(tmp_path: Path) -> None:
    private = tmp_path / "notes.csv"
    private.write_text("text,label\nmy own words,login_problem\n")
    values = SMALL | {"private": {"path": str(private)}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values))
    config = AuditConfig.model_validate({"wasp_config": str(tmp_path / "mine.yaml"), "pipeline": {}})
    attacked = pipeline_config(config)
    assert attacked.private.path == "builtin:support_desk/private.parquet"
    assert (attacked.test, attacked.public, attacked.evaluation.fid_reference) == (None, None, "none")
    assert str(private) not in attacked.model_dump_json()
    same = {"wasp_config": config.wasp_config, "pipeline": {"rows": {"path": f"{tmp_path}/./notes.csv"}}}
    with pytest.raises(ConfigError, match="holds the private rows"):
        pipeline_config(AuditConfig.model_validate(same))
    other = SMALL | {"task": "imdb", "private": {"path": str(private)}}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(other))
    with pytest.raises(ConfigError, match="ships no rows"):
        pipeline_config(
            AuditConfig.model_validate(same | {"wasp_config": str(tmp_path / "other.yaml"), "pipeline": {}})
        )


@pytest.mark.parametrize("protects", ["record", "person"])
def test_the_noise_is_that_of_the_configuration(tmp_path: Path, protects: str) -> None:
    from flows.engine.prepare import make_noise

    sample = {"person": "who", "rows": 100, "of": 200} if protects == "person" else {"rows": 100}
    values = SMALL | {"private": SMALL["private"] | sample, "privacy": {"protects": protects, "epsilon": 3.0}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    config = AuditConfig.model_validate({"wasp_config": str(tmp_path / "run.yaml"), "pipeline": {}})
    assert make_noise(pipeline_config(config)) == make_noise(load_config(WaspConfig, tmp_path / "run.yaml"))


def test_the_environment_leads_to_nothing_of_the_user(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = "import json, os, sys; json.dump(dict(os.environ), open(os.environ['SEEN'], 'w')); sys.exit('seen')"
    monkeypatch.setattr(pipeline_audit, "COMMAND", (sys.executable, "-c", seen))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    theirs = {
        "WASP_HOME": str(tmp_path / "theirs"),
        "WASP_LEDGER_URL": "sqlite:///theirs.db",
        "WASP_LEDGER_KEY_FILE": "theirs.key",
        "WASP_ARTIFACTS": "s3://theirs",
        "MLFLOW_TRACKING_URI": "http://theirs",
        "PREFECT_API_URL": "http://theirs/api",
        "PREFECT__FLOW_RUN_ID": "theirs",
    }
    for name, value in (theirs | {"WASP_DATA": "kept", "WASP_SECRET_KEY": "kept"}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "home").mkdir()
    with scratch(tmp_path / "home") as folder, pytest.raises(Exception, match="seen"):
        run_with_canaries(small, folder, lambda units: None)
    found = json.loads((tmp_path / "seen.json").read_text())
    assert not [value for value in found.values() if "theirs" in value]
    assert {name: found[name] for name in ("WASP_DATA", "WASP_SECRET_KEY")} == {
        "WASP_DATA": "kept", "WASP_SECRET_KEY": "kept"
    }  # fmt: skip
    assert str(tmp_path / "home" / "private") in found["WASP_HOME"]


def test_the_plan_says_what_so_many_canaries_can_prove() -> None:
    plan = commands.plan("audit", HERE, [])
    whole = plan["pipeline"]
    assert whole["epsilon_most"] == pytest.approx(4.08, abs=0.01)
    assert whole["epsilon_most"] > whole["epsilon_claimed"], "a run that keeps nothing of epsilon 4 can be red"
    words = text.plan(plan)
    assert "600 texts by clerk, writer, novelist, 600 canaries, 250 guesses: at most 4.08" in words
    json.dumps(plan, allow_nan=False)


def test_a_run_without_a_release_cannot_be_attacked(tmp_path: Path) -> None:
    values = SMALL | {"privacy": {"epsilon": "inf"}}
    (tmp_path / "inf.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match="nothing to audit"):
        planned(AuditConfig.model_validate({"wasp_config": str(tmp_path / "inf.yaml"), "pipeline": {}}))


def test_planted_rows_lie_in_the_private_zone_and_only_included_canaries_are_among_them(
    small: AuditConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Any] = {}

    def run_pipeline(wasp: WaspConfig, folder: Path, advance: Any) -> str:
        kept["rows"] = pd.read_parquet(wasp.private.path)
        kept["place"] = Path(wasp.private.path)
        return "run"

    monkeypatch.setattr(pipeline_audit, "_run_pipeline", run_pipeline)
    (tmp_path / "home").mkdir()
    with scratch(tmp_path / "home") as folder:
        planted = run_with_canaries(small, folder, lambda units: None)
    assert kept["place"].is_relative_to(tmp_path / "home" / "private")
    texts = set(kept["rows"]["text"])
    assert {one.text for one in planted.canaries if one.included} < texts
    assert not {one.text for one in planted.canaries if not one.included} & texts
    assert set(pd.read_parquet(DESK / "private.parquet")["text"]) < texts


def test_a_leftover_of_a_killed_audit_is_found_by_the_cleaning(tmp_path: Path) -> None:
    from flows.storage.inventory import LEFTOVERS, state_files

    with scratch(tmp_path) as folder:
        (folder / "rows.parquet").write_bytes(b"rows")
        assert [one.kind for one in state_files(tmp_path)] == [LEFTOVERS]
