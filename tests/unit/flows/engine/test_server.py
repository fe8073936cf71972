"""A server for others: what runs that it starts may name, read and send."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import ModelSpec
from connectors.models.vendors.litellm import LiteLlmModel
from flows.audit.config import AuditConfig
from flows.catalog import find_method, flow_names
from flows.compare.cells import cells_of
from flows.compare.config import CompareConfig, Row
from flows.config.execution import Execution
from flows.config.extends import find_config, flow_of
from flows.config.files import load_config, with_changes
from flows.config.task_files import load_task
from flows.engine.checks import problems_of
from flows.engine.prepare import prepare
from flows.engine.remote_writing import write_texts
from flows.engine.server import FILE, STARTED, require_addresses, serve_others, server_policy
from flows.methods.wasp.config import WaspConfig
from flows.runtime import server_policy as policy_module
from flows.runtime import task_runners
from flows.runtime.stores import shared, tracking_store
from tests.support.registered import DEMO, add, demo, write_notes

INLINE = {"path": "notes.csv", "text": "note", "label": "kind"}
RECORDED = {"name": "clerk", "connector": "recorded"}
REF = {"path": "a", "sha256": "", "key": "", "step": "", "rows": 1}
SEEDS = {
    "sequences": REF,
    "shown": {"kind": "test", "where": {"path": "env:CLINIC"}, "content": ""},
}


@pytest.fixture
def home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State folder of a server for others with the dataset clinic, in a run that the server started."""
    data = tmp_path / "data"
    data.mkdir()
    write_notes(data)
    monkeypatch.setenv("WASP_DATA", str(data))
    monkeypatch.chdir(data)
    add()
    serve_others(home)
    monkeypatch.setenv(STARTED, "a run")
    return home


def shown(config: WaspConfig, home: Path) -> list[str]:
    return [str(problem) for problem in problems_of(config, home)]


def test_a_run_names_registered_datasets_only(home: Path) -> None:
    for private in (INLINE, {**INLINE, "rows": 2, "rows_are_public": True}):
        (problem,) = shown(demo(private), home)
        assert "wasp dataset add" in problem
    assert shown(demo("clinic"), home) == []
    assert shown(load_config(WaspConfig, DEMO), home) == [], "the package's own rows are fictitious"
    (problem,) = shown(demo("clinic", test=INLINE), home)
    assert "private file of dataset 'clinic'" in problem


def test_the_limits_are_in_a_file_that_no_variable_replaces(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (home / FILE).stat().st_mode & 0o077 == 0
    monkeypatch.setenv("WASP_REGISTERED_ONLY", "0")
    with pytest.raises(
        ConfigError, match=r"WASP_REGISTERED_ONLY: removed in 0\.3\. Create the file server\.yaml"
    ):
        server_policy()
    monkeypatch.delenv("WASP_REGISTERED_ONLY")
    (home / FILE).write_text("keyes: {}")
    with pytest.raises(ConfigError, match=r"server\.yaml.*\n.*keyes"):
        server_policy()


def test_the_owners_own_commands_have_no_limits(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(STARTED)
    recorded = demo("clinic", plms=[{**RECORDED, "model": "notes.csv"}])
    assert not any("private file" in problem for problem in shown(recorded, home))


def test_a_served_flow_has_the_limits_also_in_threads_without_its_context(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import prefect.runtime

    monkeypatch.delenv(STARTED)
    monkeypatch.setattr(policy_module, "_served", Event())
    assert prefect.runtime.deployment.id is None
    assert server_policy() is None
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", str(UUID(int=1)))
    assert server_policy() is not None
    monkeypatch.delenv("PREFECT__RUNTIME__DEPLOYMENT__ID")
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(server_policy).result() is not None


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("sqlite:///{home}/ledger.db", "files below its data folder only"),
        ("env:WASP_LEDGER_URL", "files below its data folder only"),
        ("http://127.0.0.1:9/latest/meta-data.csv", "files below its data folder only"),
        ("duckdb:///:memory:", "files below its data folder only"),
        ("{home}/private/answers.csv", "not below the data folder"),
        ("{home}/../elsewhere.csv", "not below the data folder"),
        ("link.csv", "private file of dataset 'clinic'"),
        ("hard.csv", "private file of dataset 'clinic'"),
    ],
)
def test_public_rows_are_public_files_of_the_data_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, path: str, problem: str
) -> None:
    monkeypatch.setenv("WASP_LEDGER_URL", f"sqlite:///{home}/ledger.db")
    for file in (home / "private" / "answers.csv", home.parent / "elsewhere.csv"):
        file.write_text("text,label\nhello,login_problem\n")
    Path("link.csv").symlink_to("notes.csv")
    os.link("notes.csv", "hard.csv")
    rows = {"path": path.format(home=home), "text": "note", "label": "kind"}
    if path.startswith(("sqlite", "env", "duckdb")):
        rows["query"] = "select kind as text, who as label from ledger_entries"
    problems = shown(demo("clinic", test=rows), home)
    assert any(line.startswith("test.path: ") and problem in line for line in problems), problems


def test_the_private_zone_is_closed_where_the_state_folder_is_the_data_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WASP_DATA")
    (home / "private" / "answers.csv").write_text("text,label\nhello,login_problem\n")
    problems = shown(demo("clinic", test={"path": str(home / "private" / "answers.csv")}), home)
    assert any("test.path: this is not below the data folder" in line for line in problems), (
        problems
    )


@pytest.mark.parametrize(
    "model", ["notes.csv", "link.csv", "{home}/../elsewhere.csv", "{home}/private/ledger.key"]
)
def test_no_field_reads_a_private_file(home: Path, model: str) -> None:
    Path("link.csv").symlink_to("notes.csv")
    (home.parent / "elsewhere.csv").write_text("text,label\nhello,login_problem\n")
    problems = shown(demo("clinic", plms=[{**RECORDED, "model": model.format(home=home)}]), home)
    assert any(line.startswith("plms.0.model: this ") for line in problems), problems


PLACES = (
    "env:CLINIC",
    "local://{data}/notes.csv",
    "file://{data}/notes.csv",
    "{data}/notes.csv",
    "folder",
    "hard.csv",
)
"""Ways to write the private file of the dataset `clinic`."""
REFUSED = r"files below its data folder only|private file of dataset 'clinic'|not below the data folder|listed hosts"


@pytest.mark.parametrize("location", PLACES)
@pytest.mark.parametrize(
    "form",
    [
        "dp_kps vocabulary.path={}",
        "dp_kps few_shot={{path: '{}'}}",
        "wasp test={{path: '{}'}}",
        "wasp public={{path: '{}'}}",
        "wasp task={}",
        "wasp plms=[{{name: a, connector: recorded, model: '{}'}}]",
        "wasp plms=[{{name: a, connector: hf, model: '{}'}}]",
        "wasp embedder.model={}",
        "wasp student={{kind: finetune, model: '{}'}}",
        "kd_tutor discriminator.model={}",
        "dp_kps vocabulary.embedder={{model: '{}'}}",
        "pre_text filler={{name: f, connector: fill_mask, model: '{}'}}",
        "federated parties.registry={}",
        "federated parties.exchange={}",
    ],
)
def test_a_form_reads_no_private_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, form: str, location: str
) -> None:
    monkeypatch.setenv("CLINIC", str(Path("notes.csv").resolve()))
    Path("folder").mkdir()
    os.link("notes.csv", "folder/part.csv")
    os.link("notes.csv", "hard.csv")
    name, _, change = form.partition(" ")
    path = find_config(Path(f"{name}_here"))
    config = load_config(find_method(flow_of(path, flow_names())).config, path, ["data_root=null"])
    changed = with_changes(config, [change.format(location.format(data=Path.cwd()))])
    with pytest.raises(ConfigError, match=REFUSED):
        prepare(config.flow_name, changed, home)


def test_an_empty_text_names_no_file(home: Path) -> None:
    embedder = {"connector": "hashing", "model": ""}
    assert shown(demo("clinic", embedder=embedder), home) == []
    assert shown(demo("clinic", embedder=embedder, data_root=str(Path.cwd())), home) == []


def test_the_state_folder_is_closed_where_it_is_below_the_data_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_DATA", str(home.parent))
    (home / "stack").mkdir()
    (home / "stack" / "env").write_text("password: Muster")
    with pytest.raises(ConfigError, match=r"task: this is not below the data folder"):
        require_addresses(demo("clinic", task=str(home / "stack" / "env")))


SECRETS = (
    "Muster: HIV",
    "*Muster",
    "!!python/Muster HIV",
    "flow: Muster",
    "plms: Muster",
    "Muster: 1\nMuster: 2",
)


@pytest.mark.parametrize("content", SECRETS)
def test_a_message_quotes_no_file_that_a_form_may_not_name(home: Path, content: str) -> None:
    closed = home / "private" / "letter.txt"
    closed.write_text(content)
    base = Path("base.yaml")
    base.write_text(f"extends: {closed}\n")
    for form in (
        lambda: AuditConfig(config=str(closed)).audited(),
        lambda: AuditConfig(config="base").audited(),
        lambda: AuditConfig(config="demo", changes=[f"task={closed}"]).audited(),
        lambda: cells_of(_comparison(str(closed))),
        lambda: cells_of(_comparison("base")),
        lambda: cells_of(_comparison("demo", {"task": str(closed)})),
        lambda: prepare("wasp", demo("clinic", task=str(closed)), home),
    ):
        with pytest.raises(ConfigError, match="not below the data folder") as caught:
            form()
        assert "Muster" not in str(caught.value)


def _comparison(config: str, changes: dict[str, Any] | None = None) -> CompareConfig:
    return CompareConfig(title="a", rows=[Row(name="a", config=config, set=changes or {})])


def test_the_forms_of_shipped_configurations_pass(home: Path) -> None:
    assert AuditConfig(config="demo").audited().task == "support_desk"
    assert AuditConfig(config="kd_tutor_here").audited().flow_name == "kd_tutor"
    assert cells_of(_comparison("demo"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "tracking.mlflow=http://127.0.0.1:9",
            "tracking.mlflow: this server connects to no host 127.0.0.1:9",
        ),
        ("tracking.mlflow=http://mlflow.example", ""),
        ("tracking.mlflow=http://listed.example:5000", ""),
        ("tracking.mlflow=http://listed.example", "no host listed.example"),
        (r"tracking.mlflow=http://listed.example:5000\.x.example", "listed hosts only"),
        (
            "tracking.mlflow=sqlite:////tmp/x.db",
            "tracking.mlflow: this server connects to listed hosts only",
        ),
        ("tracking.mlflow=env:MLFLOW", "listed hosts only"),
        (
            "execution={task_runner: dask, cluster: 'tcp://other.example:8786'}",
            "execution.cluster: .*no host",
        ),
        ("execution={task_runner: dask, cluster: 'tcp://listed.example:5000'}", ""),
        ("private.path=env:CLINIC", "wasp dataset add"),
        ("private={path: 'builtin:support_desk/private.parquet', name: ../../x}", "private.name: "),
        ("data_root=/", "data_root: this is not below"),
        (
            "plms=[{name: a, connector: litellm, model: gemini/a, options: {extra: {api_base: 'http://x'}}}]",
            "api_base",
        ),
        (
            "plms=[{name: a, connector: litellm, model: gemini/a, endpoint: 'http://x'}]",
            "no host x",
        ),
        (
            "plms=[{name: a, connector: litellm, model: gemini/a, key: 'env:OPENAI_API_KEY'}]",
            "no host gemini",
        ),
        ("plms=[{name: a, connector: litellm, model: gemini/a, key: 'env:GEMINI_API_KEY'}]", ""),
        (
            "plms=[{name: a, connector: openai, model: a, options: {endpoints: [{url: 'http://x'}]}}]",
            "to no host x",
        ),
        (
            "plms=[{name: a, connector: openai, model: a, endpoint: 'http://api.openai.com/v1'}]",
            "no host api.openai",
        ),
    ],
)
def test_a_form_names_hosts_that_are_listed(
    home: Path, monkeypatch: pytest.MonkeyPatch, change: str, problem: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example")
    (home / FILE).write_text("hosts: ['Listed.example:5000']")
    config = with_changes(load_config(WaspConfig, DEMO), [change])
    if problem:
        with pytest.raises(ConfigError, match=problem):
            require_addresses(config)
    else:
        require_addresses(config)


def test_litellm_takes_no_address_as_a_model() -> None:
    for model in (
        "huggingface/https://x.example/v1",
        "bedrock/arn:aws:bedrock:x.example/y:1:model/a",
    ):
        with pytest.raises(ConfigError, match="contains an address"):
            LiteLlmModel.from_spec(ModelSpec("a", "litellm", model))


def test_the_stores_are_checked_again_before_a_connection(home: Path) -> None:
    with pytest.raises(ConfigError, match="no host x.example"):
        tracking_store("http://x.example", home)
    with pytest.raises(ConfigError, match="no host x.example"):
        task_runners._open_dask(
            ExitStack(), Execution(task_runner="dask", cluster="tcp://x.example:8786")
        )


@pytest.mark.parametrize(
    ("part", "changes", "problem"),
    [
        ("config", {"vocabulary": {"path": "env:CLINIC"}}, "vocabulary.path: "),
        ("config", {"task": "{home}/private/ledger.key"}, "task: "),
        ("stores", {"artifacts": "s3://other"}, "artifacts: this server uses its own artifacts"),
        ("run", {"run_id": "../../elsewhere"}, "run_id: "),
        ("job", {"part": "../x"}, "part: "),
        ("job", {"seeds": SEEDS}, "seeds.shown.where.path: "),
    ],
)
def test_the_form_of_a_models_own_worker_has_the_same_limits(
    home: Path, part: str, changes: dict[str, Any], problem: str
) -> None:
    path = find_config(Path("dp_kps_here"))
    parts: dict[str, dict[str, Any]] = {
        "config": load_config(find_method("dp_kps").config, path, ["data_root=null"]).model_dump(
            mode="json"
        ),
        "run": {"run_id": "r", "flow": "dp_kps", "dataset": "", "fingerprint": ""},
        "stores": asdict(shared(home)),
        "job": {
            "plm": "a",
            "plm_index": 0,
            "iteration": 0,
            "card": asdict(load_task("support_desk")),
        },
    }
    parts["config"] = {name: value for name, value in parts["config"].items() if value is not None}
    filled = {
        name: value.format(home=home) if isinstance(value, str) else value
        for name, value in changes.items()
    }
    parts[part] |= filled
    with pytest.raises(ConfigError, match=problem):
        write_texts.fn(**parts)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, ""),
        ({"key": "env:OPENAI_API_KEY"}, ""),
        ({"endpoint": "https://listed.example/v1", "key": "env:LISTED_KEY"}, ""),
        ({"endpoint": "https://listed.example/v1", "key": "none"}, ""),
        ({"endpoint": "https://open.example/v1", "key": "none"}, ""),
        ({"endpoint": "https://llm.example/v1", "key": "none"}, "connects to no host llm.example"),
        (
            {"endpoint": "https://open.example/v1"},
            "sends env:OPENAI_API_KEY to no host open.example",
        ),
        ({"endpoint": "https://llm.example/v1"}, "sends env:OPENAI_API_KEY to no host llm.example"),
        ({"key": "env:OTHER_KEY"}, "sends env:OTHER_KEY to no host api.openai.com"),
        (
            {"endpoint": "https://listed.example/v1", "key": "prefect:other"},
            "sends prefect:other to no host",
        ),
        (
            {
                "endpoints": ["https://listed.example/v1", "https://b.example"],
                "key": "env:LISTED_KEY",
            },
            "host b.example",
        ),
        ({"key": "env:WASP_LEDGER_URL"}, "contains no key of a language model"),
        ({"key": "env:PREFECT_API_AUTH_STRING"}, "contains no key of a language model"),
        ({"key": "env:AWS_SECRET_ACCESS_KEY"}, "contains no key of a language model"),
    ],
)
def test_a_key_goes_to_its_vendor_or_to_a_host_that_the_operator_listed(
    home: Path, options: dict[str, Any], problem: str
) -> None:
    (home / FILE).write_text("keys: {listed.example: [env:LISTED_KEY]}\nhosts: [open.example]")
    config = demo(
        "clinic",
        plms=[{"name": "writer", "connector": "openai", "model": "gpt-x", "options": options}],
    )
    if problem:
        with pytest.raises(ConfigError, match=problem):
            require_addresses(config)
    else:
        require_addresses(config)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"model": "a", "options": {"voice": "deep and slow"}}, ""),
        ({"model": "notes.csv"}, "private file of dataset 'clinic'"),
        (
            {"model": "a", "options": {"file": {"of": ["hard.csv"]}}},
            "private file of dataset 'clinic'",
        ),
        ({"model": "a", "options": {"at": "http://x.example"}}, "no host x.example"),
        ({"model": "a", "options": {"at": "env:CLINIC"}}, "listed hosts only"),
        ({"model": "a", "key": "env:OPENAI_API_KEY"}, "plms.0.key: "),
    ],
)
def test_a_connector_of_another_package_gets_no_address(
    home: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], problem: str
) -> None:
    point = SimpleNamespace(load=lambda: type("Parrot", (), {}))
    monkeypatch.setattr("flows.engine.addresses.connectors", lambda: {"parrot": point})
    os.link("notes.csv", "hard.csv")
    config = demo("clinic", plms=[{"name": "a", "connector": "parrot", **values}])
    if problem:
        with pytest.raises(ConfigError, match=problem):
            require_addresses(config)
    else:
        require_addresses(config)


def test_changes_reach_the_task_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(
        WaspConfig, DEMO, ["execution={task_runner: dask, cluster: 'tcp://x.example:8786'}"]
    )
    changes = ["execution.task_runner=threads", "execution.cluster=null"]
    for arguments in (config, config.model_dump(mode="json")):
        context = SimpleNamespace(parameters={"config": arguments, "changes": changes})
        monkeypatch.setattr(task_runners.FlowRunContext, "get", lambda context=context: context)
        assert task_runners._execution().cluster is None
