"""Where steps run: the parameters of the run decide, and decide nothing about its result."""

import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect import flow, task
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed

from connectors.interfaces.errors import ConfigError, LedgerError, WaspError
from flows.engine.prepare import Prepared, prepare
from flows.methods.wasp.config import WaspConfig
from flows.runtime import stores
from flows.runtime.stores import SharedStores
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.runtime import run_step, submit_step, task_of, task_step, value_of
from tasks.prefect.writing import generate
from tasks.private.teachers.step import teach
from tests.support.runs.prepared_run import config

DURATION = 0.3


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Prepared]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return lambda **execution: prepare("wasp", config(execution=execution), home)


def id_of(run: Prepared) -> str:
    return run.tools.run_id


def test_how_a_run_is_executed_is_no_part_of_its_name(start: Callable[..., Prepared]) -> None:
    plain = id_of(start())
    for execution in (
        {"max_workers": 7, "approval": True},
        {"task_runner": "dask", "cluster": "tcp://127.0.0.1:8786"},
    ):
        assert id_of(start(**execution)) == plain
    assert id_of(start(seed=1)) != plain


class Counter:
    """Largest number of steps under way at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.lock = threading.Lock()


def test_max_workers_holds_without_the_command_as_well(api: str) -> None:
    counter = Counter()

    @task
    def step() -> None:
        with counter.lock:
            counter.now += 1
            counter.most = max(counter.most, counter.now)
        time.sleep(DURATION)
        with counter.lock:
            counter.now -= 1

    @flow(task_runner=ConfiguredTaskRunner())
    def deployed(config: WaspConfig) -> None:
        for future in [step.submit() for _ in range(6)]:
            future.result()

    with temporary_settings({PREFECT_API_URL: api}):
        deployed(config(execution={"max_workers": 2}))
    assert counter.most == 2


class Elsewhere(ConfiguredTaskRunner):
    """A runner that says of its threads that they are not the flow's process."""

    in_threads = False


def test_a_flow_executes_the_step_that_it_waits_for_unless_steps_belong_to_a_cluster(
    api: str,
) -> None:
    seen: dict[str, Any] = {}

    @task_step("say {word}")
    def say(word: str) -> Any:
        return Completed(name="Reused", message="it was there", data=(word, threading.get_ident()))

    @task_step("refuse")
    def refuse() -> Any:
        raise ConfigError("it cannot be")

    def both(config: WaspConfig) -> None:
        seen["here"], seen["beside"] = run_step(say, "now"), value_of(submit_step(say, "soon"))
        seen["names"] = [
            entry.state.name for entry in (submit_step(say, "named"),) if value_of(entry)
        ]
        with pytest.raises(ConfigError, match="it cannot be"):
            run_step(refuse)
        with pytest.raises(ConfigError, match="it cannot be"):
            value_of(submit_step(refuse))

    with temporary_settings({PREFECT_API_URL: api}):
        for runner, same in ((ConfiguredTaskRunner(), True), (Elsewhere(), False)):
            flow(task_runner=runner)(both)(config())
            assert [seen["here"][0], seen["beside"][0], *seen["names"]] == ["now", "soon", "Reused"]
            assert (seen["here"][1] == threading.get_ident()) == same
            assert seen["beside"][1] != threading.get_ident()


def test_a_runner_that_was_opened_travels_and_duplicates_closed() -> None:
    runner = ConfiguredTaskRunner()
    again = pickle.loads(pickle.dumps(runner))
    assert isinstance(again, ConfiguredTaskRunner)
    with runner.duplicate() as other:
        assert other is not runner


def test_steps_that_call_a_vendor_or_write_the_journal_stay_with_the_flow() -> None:
    class Model:
        def __init__(self, *hosts: str) -> None:
            self.destinations = hosts

    class Tools:
        def model(self, name: str) -> Model:
            return Model("api.example.org") if name == "paid" else Model()

    class Job:
        def __init__(self, plm: str) -> None:
            self.plm = plm

    runs_in_flow_process = generate.fn.runs_in_flow_process
    assert runs_in_flow_process({"tools": Tools(), "job": Job("paid")})
    assert not runs_in_flow_process({"tools": Tools(), "job": Job("local")})
    assert task_of(teach).fn.runs_in_flow_process({})


def test_a_worker_opens_the_tools_of_a_run_once(start: Callable[..., Prepared]) -> None:
    tools = start().tools
    sent = pickle.dumps(tools)
    entry, two = pickle.loads(sent), pickle.loads(sent)
    assert entry is two
    assert entry is not tools
    assert (entry.run_id, entry.home, entry.config.plms) == (
        tools.run_id,
        tools.home,
        tools.config.plms,
    )
    assert entry.model("clerk").identity == tools.model("clerk").identity
    assert pickle.loads(pickle.dumps(start(seed=1).tools)) is not entry


def test_a_worker_with_another_book_key_or_folder_opens_nothing(
    start: Callable[..., Prepared], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = stores.shared(start().tools.home)
    parts.check()
    refused(
        parts,
        ConfigError,
        "artifacts are not shared",
        monkeypatch,
        WASP_HOME=str(tmp_path / "elsewhere"),
    )
    refused(
        parts,
        LedgerError,
        "uses the privacy ledger",
        monkeypatch,
        WASP_LEDGER_URL=f"sqlite:///{tmp_path}/b.db",
    )
    (Path(parts.home) / "private" / "ledger.key").write_bytes(bytes(32))
    refused(parts, LedgerError, "uses the ledger key", monkeypatch)


def test_what_a_run_shares_is_said_by_its_own_process_alone(
    start: Callable[..., Prepared], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = pickle.dumps(start().tools)
    monkeypatch.setenv("WASP_LEDGER_URL", f"sqlite:///{tmp_path}/another.db")
    through_a_scheduler = pickle.dumps(pickle.loads(sent))
    with pytest.raises(LedgerError, match="uses the privacy ledger"):
        _ = pickle.loads(through_a_scheduler).artifacts


def refused(
    parts: SharedStores,
    kind: type[WaspError],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    **variables: str,
) -> None:
    with monkeypatch.context() as changed:
        for name, value in variables.items():
            changed.setenv(name, value)
        with pytest.raises(kind, match=words):
            parts.check()
