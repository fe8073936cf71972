"""Registration at a real Prefect server: only what is out of date is written, and what people edited stays."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from connectors.interfaces.errors import ConfigError
from deployments.edits import ABSENT, RECORD, catalogue_values, merge, server_values
from deployments.register import _create_pool, main, register, report
from deployments.registry import Deployment, deployments
from tests.support.runs.served_flow import Refused, ask
from tests.support.servers.prefect import prefect_server

WASP, VOTES, KD = "wasp/demo", "wasp/votes", "kd_tutor/demo"
CATALOGUE = {name: one for one in deployments() if (name := f"{one.flow}/{one.name}") in (WASP, VOTES, KD)}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as api:
        yield api


@pytest.fixture
def client(api: str) -> Iterator[SyncPrefectClient]:
    """A server on which this version is registered, without edits."""
    with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
        for entry in client.read_deployments():
            client.delete_deployment(entry.id)
        _create_pool(client)
        register(client, list(CATALOGUE.values()))
        yield client


def stale(name: str, **changes: Any) -> Deployment:
    """Return the deployment as a later version has it: with these changes of its method."""
    deployment = CATALOGUE[name]
    config = deployment.parameters["config"]
    changed = replace(deployment, parameters={"config": config | {"method": config["method"] | changes}})
    assert changed.version != deployment.version
    return changed


def seen(client: SyncPrefectClient, name: str) -> dict[str, Any]:
    found = client.read_deployment_by_name(name)
    slugs = {schedule.slug: schedule.active for schedule in found.schedules}
    return server_values(found) | {"version": found.version, "active": slugs, "updated": found.updated}


def edit(client: SyncPrefectClient, api: str, name: str, **fields: Any) -> None:
    """Change fields as the page of a deployment does."""
    ask(api, f"/deployments/{client.read_deployment_by_name(name).id}", fields, method="PATCH")


def set_epsilon(client: SyncPrefectClient, api: str, name: str, epsilon: Any) -> None:
    parameters = client.read_deployment_by_name(name).parameters
    parameters["config"]["privacy"]["epsilon"] = epsilon
    edit(client, api, name, parameters=parameters)


def switch_on(client: SyncPrefectClient, name: str) -> None:
    found = client.read_deployment_by_name(name)
    (nightly,) = (schedule for schedule in found.schedules if schedule.slug == "nightly")
    client.update_deployment_schedule(found.id, nightly.id, active=True)


def test_a_new_server_gets_the_catalogue_and_the_second_time_nothing_is_written(client: SyncPrefectClient) -> None:
    before = {name: seen(client, name) for name in CATALOGUE}
    for name, deployment in CATALOGUE.items():
        assert catalogue_values(deployment).items() <= before[name].items()
        assert before[name]["version"] == deployment.version
        assert before[name]["active"] == {"nightly": False}
        found = client.read_deployment_by_name(name)
        assert (found.entrypoint, found.enforce_parameter_schema) == (deployment.entrypoint, True)
        assert found.pull_steps == [{"deployments.registry.enter_data_folder": {}}]
    outcomes = register(client, list(CATALOGUE.values()))
    assert report(outcomes) == ["deployments: 0 registered, 3 unchanged"]
    assert {name: seen(client, name) for name in CATALOGUE} == before


def test_a_stale_deployment_is_updated_and_the_edits_of_others_stay(client: SyncPrefectClient, api: str) -> None:
    switch_on(client, WASP)
    set_epsilon(client, api, VOTES, 3.5)
    edit(client, api, VOTES, tags=["wasp", "votes", "mine"])
    before = {name: seen(client, name) for name in (WASP, VOTES)}
    catalogue = [CATALOGUE[WASP], CATALOGUE[VOTES], stale(KD, samples=48)]
    lines = report(register(client, catalogue))
    assert lines == [
        "deployments: 1 registered, 2 unchanged",
        f"  updated {KD}: parameters.config.method.samples",
    ]
    assert {name: seen(client, name) for name in before} == before
    assert before[WASP]["active"] == {"nightly": True}
    assert seen(client, KD)["parameters"]["config"]["method"]["samples"] == 48


def test_edits_of_the_stale_deployment_itself_stay_and_are_named(client: SyncPrefectClient, api: str) -> None:
    found = client.read_deployment_by_name(VOTES)
    switch_on(client, VOTES)
    for slug in ("often", None):  # the UI adds schedules without a slug
        schedule = {"schedule": {"cron": "5 4 * * *"}, "active": True, "slug": slug, "parameters": {"resumes": None}}
        ask(api, f"/deployments/{found.id}/schedules", [schedule])
    set_epsilon(client, api, VOTES, 3.5)
    edit(client, api, VOTES, tags=["votes", "mine"], description="Ours.", paused=True, concurrency_limit=2)
    for samples in (120, 180):  # the second update still knows what was edited before the first
        lines = report(register(client, [stale(VOTES, samples=samples)]))
        after = client.read_deployment_by_name(VOTES)
        config = after.parameters["config"]
        assert (config["method"]["samples"], config["privacy"]["epsilon"]) == (samples, 3.5)
        assert (after.tags, after.description, after.paused) == (["votes", "mine"], "Ours.", True)
        assert after.global_concurrency_limit is not None
        assert after.global_concurrency_limit.limit == 2
        assert {(schedule.slug, schedule.active) for schedule in after.schedules} == {
            ("nightly", True),
            ("often", True),
            (None, True),
        }
        assert lines[:2] == [
            "deployments: 1 registered, 0 unchanged",
            f"  updated {VOTES}: parameters.config.method.samples",
        ]
        catalogue = CATALOGUE[VOTES].parameters["config"]["privacy"]["epsilon"]
        for kept in (
            f"parameters.config.privacy.epsilon = 3.5 (catalogue: {catalogue})",
            "tags = votes, mine (catalogue: wasp, votes)",
            "description",
            "concurrency_limit = 2 (catalogue: 1)",
            "schedules.often",
        ):
            assert f"    edit preserved: {kept}" in lines
        assert "    active schedule preserved: nightly" in lines


def test_schedules_follow_the_catalogue_unless_they_were_moved_or_removed(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on(client, WASP)
    removed = client.read_deployment_by_name(VOTES)
    client.delete_deployment_schedule(removed.id, removed.schedules[0].id)
    moved = client.read_deployment_by_name(KD)
    cron = moved.schedules[0].schedule.model_copy(update={"cron": "0 5 * * *"})
    client.update_deployment_schedule(moved.id, moved.schedules[0].id, schedule=cron)
    nightly = {"slug": "nightly", "cron": "0 4 * * *", "timezone": "UTC", "active": False}
    monkeypatch.setattr(Deployment, "schedules", property(lambda self: [nightly, nightly | {"slug": "weekly"}]))
    outcomes = register(client, list(CATALOGUE.values()))
    assert {outcome.state for outcome in outcomes} == {"updated"}
    crons = {name: {slug: one["cron"] for slug, one in seen(client, name)["schedules"].items()} for name in CATALOGUE}
    assert crons == {
        WASP: {"nightly": "0 4 * * *", "weekly": "0 4 * * *"},
        VOTES: {"weekly": "0 4 * * *"},
        KD: {"nightly": "0 5 * * *", "weekly": "0 4 * * *"},
    }
    assert seen(client, WASP)["active"] == {"nightly": True, "weekly": False}


def test_edited_parameters_that_no_longer_fit_stay_and_the_way_out_works(
    client: SyncPrefectClient, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_epsilon(client, api, VOTES, 3.5)
    before = seen(client, VOTES)
    narrower = narrow_schema(client, monkeypatch)
    lines = report(register(client, [narrower, stale(KD, samples=48)]))
    assert lines[0] == "deployments: 1 registered, 0 unchanged, 1 NOT REGISTERED"
    (refused,) = (line for line in lines if line.startswith(f"  NOT REGISTERED {VOTES}: edited parameters do not fit"))
    assert "privacy.epsilon" in refused
    assert f"python -m deployments.register --reset {VOTES}" in refused
    assert seen(client, VOTES) == before
    assert [outcome.state for outcome in register(client, [narrower], reset=[VOTES])] == ["updated"]
    after = seen(client, VOTES)
    assert after["version"] == narrower.version
    assert after["parameters"] == narrower.parameters


def narrow_schema(client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Return a later version whose form allows no epsilon below 3.75."""
    import deployments.register as module

    original = module._schema

    def schema(deployment: Deployment) -> dict[str, Any]:
        found = original(deployment)
        if deployment.flow == "wasp":
            found["definitions"]["Privacy"]["properties"]["epsilon"] = {"type": "number", "minimum": 3.75}
        return found

    monkeypatch.setattr(module, "_schema", schema)
    return stale(VOTES, samples=120)


def test_the_server_still_checks_runs_and_shows_the_record_nowhere_else(client: SyncPrefectClient, api: str) -> None:
    found = client.read_deployment_by_name(WASP)
    assert found.parameter_openapi_schema is not None
    record = found.parameter_openapi_schema["definitions"][RECORD]
    assert record["default"]["parameters"] == CATALOGUE[WASP].parameters
    assert RECORD not in str(found.parameter_openapi_schema["properties"])
    body = {"parameters": {"config": found.parameters["config"] | {"private": {"rows": 0}}}}
    with pytest.raises(Refused, match="config.private"):
        ask(api, f"/deployments/{found.id}/create_flow_run", body)


@pytest.mark.parametrize("edited", [False, True])
def test_a_deployment_without_a_record_is_told_apart_by_its_version(
    client: SyncPrefectClient, api: str, edited: bool
) -> None:
    found = client.read_deployment_by_name(VOTES)
    schema = dict(found.parameter_openapi_schema or {})
    schema["definitions"] = {name: value for name, value in schema["definitions"].items() if name != RECORD}
    edit(client, api, VOTES, parameter_openapi_schema=schema)
    if edited:
        set_epsilon(client, api, VOTES, 3.5)
    register(client, [stale(VOTES, samples=120)])
    config = seen(client, VOTES)["parameters"]["config"]
    assert config["privacy"]["epsilon"] == (
        3.5 if edited else CATALOGUE[VOTES].parameters["config"]["privacy"]["epsilon"]
    )
    assert config["method"]["samples"] == (
        CATALOGUE[VOTES].parameters["config"]["method"]["samples"] if edited else 120
    )


def test_a_served_deployment_goes_to_the_worker_and_another_pool_stays(client: SyncPrefectClient, api: str) -> None:
    edit(client, api, WASP, work_pool_name=None)
    ask(api, "/work_pools/", {"name": "gpu", "type": "process"})
    edit(client, api, KD, work_pool_name="gpu")
    outcomes = register(client, [CATALOGUE[WASP], stale(KD, samples=48)])
    assert [outcome.state for outcome in outcomes] == ["updated", "updated"]
    assert seen(client, WASP)["work_pool_name"] == "wasp"
    assert seen(client, KD)["work_pool_name"] == "gpu"


def test_an_unknown_name_is_refused_before_anything_is_written(client: SyncPrefectClient) -> None:
    with pytest.raises(ConfigError, match=r"--reset wasp/dmo: there is no such deployment.*wasp/demo"):
        register(client, [CATALOGUE[WASP]], reset=["wasp/dmo"])


def test_the_merge_takes_each_value_from_whoever_changed_it() -> None:
    written = {"a": 1, "b": {"c": 2, "d": 3}, "list": [1, 2], "gone": 5}
    current = {"a": 9, "b": {"c": 2}, "list": [1], "gone": 5, "own": 7}
    catalogue = {"a": 1, "b": {"c": 4, "d": 3}, "list": [1, 2, 3], "new": 6}
    merged, edits = merge(written, current, catalogue)
    assert merged == {"a": 9, "b": {"c": 4}, "list": [1], "new": 6, "own": 7}
    assert {edit.field: edit.value for edit in edits} == {"a": 9, "b.d": ABSENT, "list": [1], "own": 7}
    assert merge(ABSENT, {"a": 1}, {"a": 2, "b": 3})[0] == {"a": 1, "b": 3}


def test_no_text_of_an_edited_parameter_is_printed() -> None:
    (edit_of_path,) = merge({}, {"path": "/private/rows.csv"}, {"path": "rows.csv"})[1]
    assert str(edit_of_path) == "path"


@pytest.mark.slow
def test_the_command_registers_the_whole_catalogue(
    api: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with temporary_settings({PREFECT_API_URL: api}):
        assert main([]) == 0
        assert main([]) == 0
        assert main(["--reset", "nobody/knows"]) == 2
    printed = capsys.readouterr()
    assert f"deployments: 0 registered, {len(deployments())} unchanged" in printed.out
    assert "nobody/knows" in printed.err
