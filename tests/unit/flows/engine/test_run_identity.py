"""A run keeps its id after an upgrade: stored runs are resumed, repeated ones found, and a change is named."""

import json
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import ConfigError
from flows.catalog import find_flow
from flows.config.files import check_config, load_config, read_stored
from flows.config.task_files import load_task
from flows.engine.prepare import Prepared, explain_change, guarantee_of, prepare
from flows.engine.run_identity import (
    LAYOUTS,
    RunParts,
    find_name,
    require_resumable,
    settings_of,
    stored_settings,
)
from flows.engine.run_manifest import open_manifest
from flows.engine.warnings import warnings_of
from flows.runtime.locations import with_locations
from flows.runtime.manifest import initial_values, read_manifest, written_by
from flows.runtime.stores import open_artifacts, open_ledger
from tests.support.paths import GOLDEN, ROOT
from tests.support.run_ids import configurations
from tests.support.runs.prepared_run import config as small
from tests.support.runs.prepared_run import start
from tests.support.stored_states import STATES, VERSIONS, runs_of, unpack

CHANGED = {
    "density_here": "method.final_set: matched",
    "papers/dp_kps_dbpedia": "method.repeats: true",
    "papers/dp_kps_dbpedia_here": "method.repeats: true",
    "dp_sgd_gen_here": "method.alpha: 4",
    "dp_sgd_gen_own_data": "method.alpha: 4",
    "kd_tutor_here": "discriminator.negatives: 50",
    "federated_here": "parties.embeddings: float16",
    "papers/federated_person_imdb": "parties.embeddings: float16",
}
"""Configurations of 701dc80 with a value that no later version has, and that changes the run."""


def shipped(version: str) -> dict[str, Any]:
    text = lzma.decompress((STATES / f"{version}.json.xz").read_bytes())
    return {
        name: entry
        for name, entry in json.loads(text).items()
        if "/" not in (task := entry["config"]["task"]) or Path(task).exists()
    }


def ids_of(config: Any, settings: dict[str, Any]) -> list[str]:
    """Return the digests of a configuration in all layouts, as `tests.support.run_ids` makes them."""
    config = config.without_rows()
    models = [
        [plm.name, f"identity of {plm.name}", *["list"] * plm.is_listed] for plm in config.models
    ]
    card, is_listed = load_task(config.task), any(plm.is_listed for plm in config.models)
    parts = RunParts(config.flow_name, settings, card, models, "identity of the embedder", "", ())
    return [layout.arrange(parts, is_listed).digest() for layout in LAYOUTS]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stored_run_has_the_id_it_had(version: str) -> None:
    others = {}
    for name, entry in shipped(version).items():
        manifest = {"flow": entry["flow"], "config": entry["config"], "run_id": name}
        config = read_stored(find_flow(entry["flow"]).config, manifest)
        settings = stored_settings(config.without_rows(), manifest)
        assert settings is not None
        if entry["id"][-10:] not in ids_of(config, settings):
            others[name] = entry["id"]
    assert not others


@pytest.mark.parametrize("version", VERSIONS)
def test_an_equal_configuration_has_the_id_that_an_earlier_version_gave_it(version: str) -> None:
    others = set()
    for name, entry in shipped(version).items():
        manifest = {"flow": entry["flow"], "config": entry["config"], "run_id": name}
        config = read_stored(find_flow(entry["flow"]).config, manifest)
        if entry["id"][-10:] not in ids_of(config, settings_of(config.without_rows())):
            others.add(name)
    free = {
        "papers/dp_sgd_gen_imdb",
        "papers/dp_sgd_student_mtsamples",
    }  # method.rows_at_once: other than the default
    assert others == (
        (set(CHANGED) | free) & set(shipped(version)) if version == "701dc80" else set()
    )


def test_the_shipped_configurations_have_the_ids_of_the_golden_file() -> None:
    """Fails when a change gives runs another id. See CONTRIBUTING.md, "Compatibility"."""
    golden = json.loads((GOLDEN / "run_ids.json").read_text(encoding="utf-8"))
    assert {name: entry["id"] for name, entry in configurations(ROOT).items()} == golden


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_a_removed_setting_that_changes_the_run_is_named(name: str) -> None:
    entry = shipped("701dc80")[name]
    manifest = {
        "flow": entry["flow"],
        "config": entry["config"],
        "run_id": name,
        "versions": {"wasp-synth": "0.2.0"},
    }
    config = read_stored(find_flow(entry["flow"]).config, manifest).without_rows()
    field = CHANGED[name].partition(":")[0]
    with pytest.raises(ConfigError, match=rf"{field}: .*version 0\.2\.0.*wasp abandon {name}"):
        require_resumable(entry["flow"], manifest, stored_settings(config, manifest) or {})


@pytest.mark.parametrize("version", VERSIONS)
def test_both_runs_of_an_earlier_state_folder_are_found_again(version: str, tmp_path: Path) -> None:
    state = unpack(version, tmp_path)
    for run_id in runs_of(state):
        assert resumed(state, run_id).tools.run_id == run_id
        config = stored(state, run_id)
        assert prepare(config.flow_name, config, state).tools.run_id == run_id, (
            "repeated, it is the same run"
        )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "part", ["settings", "task file", "language model terse", "data or embedder"]
)
def test_the_message_names_the_part_that_changed(version: str, part: str, tmp_path: Path) -> None:
    state = unpack(version, tmp_path)
    run_id, _ = runs_of(state)
    assert_named(state, run_id, part, tmp_path)


def test_a_run_of_this_version_states_exactly_what_changed(tmp_path: Path) -> None:
    prepared = start(tmp_path / "home")
    open_manifest("wasp", prepared).update()
    run_id, home = prepared.tools.run_id, tmp_path / "home"
    for part, changes in {
        "settings": {"method": {"examples": 6}},
        "test, public or example rows": {"test": {"rows": 60}},
        "embedder": {
            "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 64}}
        },
    }.items():
        changed = prepare("wasp", small(**changes), home, resumes=run_id)
        assert changed.tools.run_id != run_id
        assert part in explain_change(changed, run_id), part


def test_the_message_names_another_version_with_its_commit() -> None:
    assert written_by({"versions": {"wasp-synth": "0.2.0"}}) == "version 0.2.0"
    own = initial_values("run", "wasp", None, {}) | {"commit": "701dc80" + 33 * "0"}
    assert written_by(own).endswith(", commit 701dc800")


def test_a_moved_state_folder_states_where_its_files_are_now(tmp_path: Path) -> None:
    state = unpack(VERSIONS[0], tmp_path)
    _, run_id = runs_of(state)
    summary = json.loads((state / "runs" / run_id / "summary.json").read_text(encoding="utf-8"))
    assert summary["folder"] == f"/srv/wasp/state/runs/{run_id}"
    now = with_locations(open_artifacts(state), run_id, summary)
    assert (now["folder"], now["report"]) == (
        f"{state}/runs/{run_id}",
        f"{state}/runs/{run_id}/report.html",
    )
    assert f"sqlite:///{state}/mlflow.db" in now["mlflow"]
    assert "/srv/wasp" not in json.dumps(now)


def stored(state: Path, run_id: str) -> Any:
    manifest = read_manifest(open_artifacts(state), run_id)
    return read_stored(find_flow(manifest["flow"]).config, manifest)


def resumed(
    state: Path, run_id: str, change: Callable[[dict[str, Any]], None] = lambda _: None
) -> Prepared:
    config = stored(state, run_id)
    values = config.model_dump(mode="json")
    change(values)
    return prepare(
        config.flow_name, check_config(type(config), values, "the test"), state, resumes=run_id
    )


def assert_named(state: Path, run_id: str, part: str, folder: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        if part == "settings":
            values["method"]["examples"] = 6
        if part == "task file":
            text = (ROOT / "flows/config/task_files/support_desk.yaml").read_text(encoding="utf-8")
            file = folder / "support_desk.yaml"
            file.write_text(text.replace("a device is broken", "a device broke"), encoding="utf-8")
            values["task"] = str(file)
        if part == "language model terse":
            values["plms"][0]["model"] = "builtin:recordings/story.parquet"
        if part == "data or embedder":
            values["test"]["path"] = "builtin:support_desk/public.parquet"

    spent = open_ledger(state).status("support-desk-demo").spent
    changed = resumed(state, run_id, change)
    assert changed.tools.run_id != run_id
    message = explain_change(changed, run_id)
    assert f"Run {run_id} cannot be resumed: its {part} changed" in message
    assert "It was written by version 0.2.0; this is version" in message
    assert open_ledger(state).status("support-desk-demo").spent == spent


def test_a_run_from_before_tasks_had_lines_of_lists_is_found() -> None:
    card = load_task("dbpedia14")
    assert len(card.phrase_examples) == 2
    config = load_config(find_flow("dp_kps").config, Path("papers/dp_kps#dp_kps_dbpedia_here"), [])
    settings = settings_of(config.without_rows())
    parts = RunParts("dp_kps", settings, card, [["smollm2", "identity", "list"]], "", "", ())
    current, arranged = find_name(parts, "run", True, lambda _: False)
    assert arranged.card == card
    earlier = replace(parts, card=replace(card, phrase_examples=()))
    earlier_id = find_name(earlier, "run", True, lambda _: False)[0]
    assert earlier_id != current
    run_id, arranged = find_name(parts, "run", True, lambda name: name == earlier_id)
    assert (run_id, arranged.card.phrase_examples) == (earlier_id, ())
    # Lines that no prompt has are no part of a run.
    for flow, is_listed in (("dp_kps", False), ("wasp", True)):
        names = {
            find_name(replace(each, flow=flow), "run", is_listed, lambda _: False)[0]
            for each in (parts, earlier)
        }
        assert len(names) == 1, flow


def test_lists_that_begin_with_lines_of_another_task_are_warned_about(
    home: Path, tmp_path: Path
) -> None:
    plms = [{"name": "small", "connector": "hf", "model": "smollm2"}]
    task = tmp_path / "own.yaml"
    text = "name: own\nitem: letter\nlabels: [a, b]\n"
    words = "no instructions.phrase_examples, so prompts of small begin with two lines of a support"

    def warnings(**changes: object) -> str:
        values = [f"{name}={json.dumps(value)}" for name, value in changes.items()]
        config = load_config(
            find_flow("dp_kps").config, Path("dp_kps_here"), ["test=null", *values]
        )
        return " ".join(warnings_of(config, load_task(config.task), guarantee_of(config)))

    task.write_text(text)
    assert words in warnings(task=str(task), plms=plms)
    chat = [plms[0] | {"style": "chat"}]
    assert words not in warnings(task=str(task), plms=chat)
    assert words not in warnings(plms=plms), "the lines fit the shipped support desk"
    line = "{phrases: [dear, rain], text: 'Dear Ann, we had rain.'}"
    task.write_text(f"{text}instructions: {{phrase_examples: [{line}]}}\n")
    assert words not in warnings(task=str(task), plms=plms)
    task.write_text(f"{text}instructions: {{phrase_examples: [{line.replace('rain.', 'sun.')}]}}\n")
    with pytest.raises(ConfigError, match="the text lacks one of its phrases"):
        load_task(task)
