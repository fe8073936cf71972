"""Checks of a comparison before it starts: models, vendors, disk, memory and parties, each once and first."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from connectors.models.transformers import hub_files, model_sizes
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.openai import OpenAIModel
from connectors.security.signing import open_signing_key
from flows.compare import text
from flows.compare.cells import cells_of
from flows.compare.config import CompareConfig
from flows.compare.measuring import measure_models
from flows.compare.partitions import make_partition, registry_of
from flows.compare.preflight import checked_cells
from flows.compare.values import planned
from flows.config.files import check_config
from flows.engine.parties import read_registry
from flows.runtime.state_folder import COORDINATOR_KEY
from tests.support.runs.pipeline import SMALL, Pipeline, written
from tests.support.servers.hub import REMOTE_CODE, HubModel, hub_of
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, Request

GIGABYTE = 10**9
LLAMA = {"model_type": "llama", "torch_dtype": "float16"}
MODELS = {
    "open/llama": HubModel(LLAMA, {"config.json": 1000, "model.safetensors": 2 * GIGABYTE}),
    "open/large": HubModel(LLAMA, {"config.json": 1000, "pytorch_model.bin": 3000 * GIGABYTE}),
    "open/coded": HubModel(REMOTE_CODE, {"config.json": 1000, "model.safetensors": GIGABYTE}),
    "open/gated": HubModel(LLAMA, {"config.json": 1000}, gated=True),
}
NGRAM = {"name": "clerk", "connector": "ngram", "model": "helpdesk"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub with MODELS, for this process, and an empty local cache."""
    from huggingface_hub import constants

    with hub_of(MODELS) as address:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(
            constants._HF_DEFAULT_ENDPOINT, address
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache" / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield address


def hf(model: str, **options: Any) -> dict[str, Any]:
    return {"name": model.replace("/", "-"), "connector": "hf", "model": model, "options": options}


def comparison(folder: Path, models: dict[str, list[Any]], **changes: Any) -> dict[str, Any]:
    """Return a comparison with a row for each list of models."""
    file = written(folder / "small.yaml", SMALL | {"method": SMALL["method"] | {"samples": 54}})
    rows = [
        {"name": name, "config": str(file), "set": {"plms": plms}} for name, plms in models.items()
    ]
    return {"title": "Small", "rows": rows, "seeds": [0, 1]} | changes


def compared(folder: Path, models: dict[str, list[Any]], **changes: Any) -> CompareConfig:
    return check_config(CompareConfig, comparison(folder, models, **changes), "a test")


def test_models_of_the_hub_are_checked_by_their_settings(
    home: Path, tmp_path: Path, hub: str
) -> None:
    models = {
        "fits": [hf("open/llama")],
        "coded": [hf("open/llama"), hf("open/coded")],
        "gated": [hf("open/gated")],
    }
    columns = [{"name": "a"}, {"name": "b", "set": {"method.votes": 2}}]
    value = planned(compared(tmp_path, models, columns=columns))
    coded, gated = value["problems"]
    assert coded == (
        "rows 'coded', columns 'a' and 1 more: Model 'open-coded': 'open/coded' needs Python code of its authors, "
        "which is never run here. Serve the model with vLLM and use the connector openai with its endpoint, or use "
        "another model."
    )
    assert "'open/gated' is gated. Accept its licence on the hub" in gated
    assert (value["failing"], value["open"]) == (8, 12)
    assert value["needs"]["downloads"]["models"] == 1
    assert value["needs"]["downloads"]["bytes"] == 2 * GIGABYTE + 1000
    memory = value["needs"]["memory"]
    assert (memory["model"], memory["device"]) == ("open-llama", "cpu")
    assert memory["bytes"] == 4 * GIGABYTE, "published in half precision, loaded in float32"
    words = text.plan(value)
    assert words.startswith("problems      2, in 8 of 12 cells to run; listed on standard error")
    assert "downloads     1 model of the hub, 2.0 GB; " in words
    assert "never called: open-llama, open-coded, open-gated" in words


def test_a_model_beyond_disk_and_memory_is_a_problem(home: Path, tmp_path: Path, hub: str) -> None:
    value = planned(compared(tmp_path, {"large": [hf("open/large")], "small": [NGRAM]}))
    memory, disk = value["problems"]
    assert (
        "Model 'open-large': its weights need 6000.0 GB of memory, and the device 'cpu'" in memory
    )
    assert disk.startswith("rows 'large', columns 'all': disk: models of 3000.0 GB must be")
    assert (value["failing"], value["open"]) == (2, 4)


def test_models_that_leave_the_memory_are_not_added_up(
    home: Path, tmp_path: Path, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_row = [hf("open/llama"), hf("open/llama", keep_loaded=False) | {"name": "second"}]
    monkeypatch.setattr(model_sizes, "memory_of", lambda _: 5 * GIGABYTE)
    value = planned(compared(tmp_path, {"both": of_row}))
    assert value["needs"]["memory"]["bytes"] == 8 * GIGABYTE, "one stays, the other is added"
    only_leaving = [entry | {"options": {"keep_loaded": False}} for entry in of_row]
    value = planned(compared(tmp_path, {"both": only_leaving}))
    assert value["needs"]["memory"]["bytes"] == 4 * GIGABYTE


def test_an_unreachable_hub_is_tried_once_for_each_model(
    home: Path, tmp_path: Path, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    read = hub_files.read_hub_settings

    def counted(field: str, model: str, revision: str | None) -> Any:
        tried.append(model)
        return read(field, model, revision)

    monkeypatch.setattr("connectors.models.transformers.model_checks.read_hub_settings", counted)
    monkeypatch.setattr(model_sizes, "read_hub_settings", counted)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}",
    )
    value = planned(compared(tmp_path, {"a": [hf("open/llama")], "b": [hf("open/llama"), NGRAM]}))
    (problem,) = value["problems"]
    assert problem.startswith("rows 'a', columns 'all' and 1 more: Model 'open-llama'")
    assert "the hub is unreachable" in problem
    assert tried == ["open/llama"]
    assert value["needs"] == {"downloads": None, "memory": None}


def listing(request: Request) -> Reply | None:
    """Answer as a vendor that lists the model `today` alone."""
    if "/models/" not in request.path:
        return None
    if request.path.endswith("/today"):
        return Reply(body={"id": "today"})
    return Reply(404, {"error": {"type": "not_found_error", "message": "no such model"}})


def test_the_command_states_a_model_that_its_vendor_no_longer_lists(tmp_path: Path) -> None:
    with VendorServer(plan=listing) as server, hub_of(MODELS) as address:
        code = (
            "from connectors.models.vendors.anthropic import AnthropicModel\n"
            "from connectors.models.vendors.openai import OpenAIModel\n"
            f"AnthropicModel.url = {server.url!r}\n"
            f"OpenAIModel.url = {server.url + '/v1'!r}\n"
        )
        extra = {
            "OPENAI_API_KEY": "a-key",
            "ANTHROPIC_API_KEY": "a-key",
            "HF_ENDPOINT": address,
            "HF_HUB_OFFLINE": "0",
            "HF_HOME": str(tmp_path / "hf"),
        }
        pipeline = Pipeline(tmp_path / "home", extra=extra).patched(code)
        paid = {"connector": "openai", "price": {"input": 1.0, "output": 1.0}}
        models = {
            "today": [{"name": "gpt", "model": "today"} | paid],
            "yesterday": [{"name": "claude", "model": "old"} | paid | {"connector": "anthropic"}],
            "coded": [hf("open/coded")],
        }
        file = written(tmp_path / "compare.yaml", comparison(tmp_path, models))
        done = pipeline.call("compare", "--config", str(file), "--plan", code=2)
    first, second = done.stderr.strip().splitlines()[-2:]
    assert first.startswith("wasp: rows 'yesterday', columns 'all': Model 'claude': 127.0.0.1:")
    assert "does not list 'old' (any more, or for this key)" in first
    assert second.startswith("wasp: rows 'coded', columns 'all': Model 'open-coded'")
    assert done.stdout.startswith("problems      2, in 4 of 6 cells to run")
    paths = [request.path for request in server.requests]
    assert sorted(paths) == ["/v1/models/old", "/v1/models/today"], "one free request for a model"


def test_a_list_that_does_not_answer_is_stated(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    with VendorServer(plan=lambda _: Reply(500, {})) as server:
        monkeypatch.setattr(OpenAIModel, "url", f"{server.url}/v1")
        models = {"paid": [{"name": "gpt", "connector": "openai", "model": "today"}]}
        value = planned(compared(tmp_path, models))
    assert value["problems"] == []
    (line,) = value["unchecked"]
    assert "unknown whether 127.0.0.1" in line
    assert "lists 'today' (HTTP 500)" in line
    assert f"not checked   {line}" in text.plan(value)


def test_stored_texts_of_a_model_that_is_gone_stay_usable(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    models = {"paid": [{"name": "claude", "connector": "anthropic", "model": "old"}]}
    with VendorServer(plan=listing) as server:
        monkeypatch.setattr(AnthropicModel, "url", server.url)
        config = compared(tmp_path, models, seeds=[0])
        assert len(planned(config)["problems"]) == 1
        (cell,) = cells_of(config)
        from flows.engine.preview import preview_rows

        preview_rows(cell.config, home, 1)
        value = planned(config)
    assert value["problems"] == []
    assert value["unchecked"][0].endswith("Only its stored texts can be used")


def test_a_comparison_starts_if_a_cell_can_run(
    home: Path, tmp_path: Path, hub: str, capsys: pytest.CaptureFixture[str]
) -> None:
    coded = [hf("open/coded")]
    assert len(checked_cells("compare", compared(tmp_path, {"a": coded, "b": [NGRAM]}))) == 4
    assert "warning: this cell will fail: rows 'a', columns 'all'" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="rows 'a', columns 'all': Model 'open-coded'"):
        checked_cells("compare", compared(tmp_path, {"a": coded}))


def test_models_without_a_price_are_measured_for_the_time(home: Path, tmp_path: Path) -> None:
    with VendorServer(latency=0.05) as server:
        own = server.plm(name="own", key="none")
        paid = server.plm(name="paid", key="none", price={"input": 1.0, "output": 1.0}, model="p")
        config = compared(tmp_path, {"a": [NGRAM, own], "b": [paid], "c": [own]}, seeds=[0])
        before = planned(config)
        assert before["minutes_of_writing"] is None
        assert before["unmeasured"] == ["clerk", "own", "paid"]
        measure_models(config)
        assert {request.body["model"] for request in server.requests} == {"m"}
        assert server.count == 5
        measure_models(config)
        assert server.count == 5, "measured once"
        value = planned(config)
    assert value["unmeasured"] == ["paid"]
    assert value["minutes_measured"] > 0
    assert "of generation in cells whose models were called; never called: paid" in text.plan(value)


# --- parties
def federated(folder: Path, **changes: Any) -> CompareConfig:
    """Return a comparison with one federated row, whose rows are in `folder`."""
    labels = ["login_problem", "billing_question", "slow_internet"]
    rows = {"text": [f"record {i}" for i in range(60)], "label": [labels[i % 3] for i in range(60)]}
    pd.DataFrame(rows).to_csv(folder / "rows.csv", index=False)
    shared = {
        "private": None,
        "parties": {
            "registry": "parties/desk-{seed}/parties.yaml",
            "exchange": "parties/desk-{seed}/exchange",
        },
    }
    values = comparison(folder, {"federated": [NGRAM]})
    values["set"] = {f"parties.{name}": value for name, value in shared["parties"].items()}
    values["set"] |= {"private": None, "data_root": str(folder)}
    values["columns"] = [{"name": "all", "partition": {"path": "rows.csv", "take": 30}}]
    return check_config(CompareConfig, values | changes, "a test")


def test_a_plan_needs_the_number_of_parties_alone(home: Path, tmp_path: Path) -> None:
    value = planned(federated(tmp_path, local_parties=3))
    assert value["problems"] == []
    (dataset,) = value["datasets"]
    assert (dataset["dataset"], dataset["runs"], dataset["registries"]) == ("federation", 2, 2)
    assert dataset["epsilon"] == pytest.approx(4.0, abs=0.01), "each seed has its own parties"
    assert "(ledgers of the parties of 2 folders): 2 runs with total epsilon of at most" in (
        text.plan(value)
    )
    assert not (tmp_path / "parties").exists()


def test_parties_that_nothing_makes_are_a_problem(home: Path, tmp_path: Path) -> None:
    (problem, _) = planned(federated(tmp_path))["problems"]
    assert "parties/desk-0/parties.yaml does not exist. Add --local-parties N" in problem
    columns = [{"name": "all", "partition": {"path": "absent.csv"}}]
    (problem,) = planned(federated(tmp_path, local_parties=3, columns=columns))["problems"]
    assert f"{tmp_path}/absent.csv does not exist" in problem


def test_a_folder_of_parties_is_made_once_and_complete(home: Path, tmp_path: Path) -> None:
    config = federated(tmp_path, local_parties=3)
    first, second = cells_of(config)
    unfinished = tmp_path / "parties" / ".unfinished-desk-0-0.0.0"
    unfinished.mkdir(parents=True)
    for cell in (first, second, first):
        make_partition(cell.config, cell.partition, 3, cell.seed)
    registry = registry_of(first.config)
    assert registry is not None
    keys = read_registry(registry)[0]
    assert list(keys) == ["party-1", "party-2", "party-3"]
    party = yaml.safe_load((registry.parent / "party-1" / "party.yaml").read_text())
    assert party["embedder"]["options"] == SMALL["embedder"]["options"], "else it refuses rounds"
    assert sorted(path.name for path in (tmp_path / "parties").iterdir()) == [
        unfinished.name,
        "desk-0",
        "desk-1",
    ], "what another machine is making is left alone"

    def texts(seed: int) -> list[str]:
        files = (tmp_path / "parties" / f"desk-{seed}").glob("party-*/rows.parquet")
        return sorted(text for file in files for text in pd.read_parquet(file)["text"])

    assert len(texts(0)) == len(texts(1)) == 30
    assert texts(0) != texts(1), "another seed takes other rows"
    columns = [{"name": "all", "partition": {"path": "rows.csv", "take": 40}}]
    (problem, _) = planned(federated(tmp_path, local_parties=3, columns=columns))["problems"]
    assert "desk-0 was divided with take 30, not 40. Name another folder" in problem


def test_parties_of_another_state_folder_are_a_problem(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = federated(tmp_path, local_parties=3)
    for cell in cells_of(config):
        make_partition(cell.config, cell.partition, 3, cell.seed)
    assert planned(config)["problems"] == []
    other = tmp_path / "other"
    monkeypatch.setenv("WASP_HOME", str(other))
    (problem, _) = planned(config)["problems"]
    assert f"desk-0/parties.yaml belong to another state folder than {other}" in problem
    assert f"move {tmp_path / 'parties' / 'desk-0'} away" in problem
    assert not list(other.rglob("*.key")), "a plan makes no key"
    open_signing_key(other, COORDINATOR_KEY)
    assert len(planned(config)["problems"]) == 2
    # Parties elsewhere have a registry that somebody else wrote: the run says what to write into it.
    assert planned(federated(tmp_path))["problems"] == []


@pytest.mark.parametrize("table", ["table_2", "table_10"])
def test_tables_of_parties_are_planned_in_an_empty_home_without_data(
    table: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(tmp_path / "home", extra={"WASP_DATA": str(tmp_path / "no data")})
    done = pipeline.call(
        "compare", f"papers/wasp#{table}", "--plan", "--json", "--set", "seeds=[0]", code=2
    )
    value = json.loads(done.stdout.splitlines()[-1])
    assert any("imdb/test.parquet does not exist" in problem for problem in value["problems"])
    (joint,) = [entry for entry in value["datasets"] if entry["dataset"] == "federation"]
    assert joint["registries"] == {"table_2": 6, "table_10": 2}[table]
    assert {"WASP", "OnlyPrivate"} <= {cell["row"] for cell in value["matrix"]}
    assert not any("parties.registry" in problem for problem in value["problems"])
    assert all(str(tmp_path / "no data") in line for line in value["problems"] if "exist." in line)
