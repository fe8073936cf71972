"""Where weights come from: the hub's cache, the hub, a folder; what is refused, and the messages to the user."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from connectors.interfaces.errors import ConfigError, FinalError, TemporaryError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.transformers.hub_files import HubFiles, measure_hub_files
from connectors.models.transformers.model import HfModel
from connectors.models.transformers.model_checks import find_model
from tests.support.models.tiny import tiny_models as tiny_models
from tests.support.paths import ROOT
from tests.support.servers.hub import COMMIT, HubModel, hub_of

torch = pytest.importorskip("torch")
ASKED = [Prompt("Write one text.", "x", max_tokens=6, seed=i) for i in range(3)]


def opened(model: object, **options) -> HfModel:
    return HfModel.from_spec(ModelSpec("tiny", "hf", str(model), {"temperature": 0.0, **options}))


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.fixture
def hub(cache, monkeypatch) -> Iterator[dict[str, object]]:
    """A hub on loopback that answers every question with one status, error code and JSON value."""
    from huggingface_hub import constants

    answer: dict[str, object] = {"status": 404, "code": "RepoNotFound", "body": {}}

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer["body"]).encode()
            self.send_response(int(str(answer["status"])))
            self.send_header("X-Error-Code", str(answer["code"]))
            length = str(len(body))
            for name, value in (
                ("ETag", "x"),
                ("X-Repo-Commit", COMMIT),
                ("Content-Length", length),
            ):
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    point_to(f"http://127.0.0.1:{server.server_port}", monkeypatch)
    yield answer
    server.shutdown()
    server.server_close()


def point_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hub's client of this process ask another address."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(
        constants._HF_DEFAULT_ENDPOINT, address
    )
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def in_cache(cache: Path, folder: Path) -> str:
    """Lay a folder into the hub's cache, as a download does."""
    location = cache / "models--tiny--model"
    shutil.copytree(folder, location / "snapshots" / COMMIT)
    (location / "refs").mkdir()
    (location / "refs" / "main").write_text(COMMIT)
    return "tiny/model"


def test_a_hub_id_in_the_local_cache_works_without_network_and_is_named_by_its_commit(
    cache, tiny_models
):
    model = opened(in_cache(cache, tiny_models["gpt2"]))
    assert model.complete(ASKED) == opened(tiny_models["gpt2"]).complete(ASKED)
    assert COMMIT in model.identity


def test_the_cache_is_read_before_the_hub(hub, cache, tiny_models):
    assert opened(in_cache(cache, tiny_models["gpt2"])).complete(ASKED)


@pytest.fixture
def served(cache, tiny_models, monkeypatch) -> Iterator[HubModel]:
    """The model `tiny/model` on a hub that sends its files."""
    from huggingface_hub import constants

    model = HubModel(folder=tiny_models["gpt2"])
    with hub_of({"tiny/model": model}) as address:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        point_to(address, monkeypatch)
        yield model


def test_a_model_of_the_hub_is_downloaded_once(served, cache, tiny_models):
    assert opened("tiny/model").complete(ASKED) == opened(tiny_models["gpt2"]).complete(ASKED)
    sent = len(served.sent)
    assert opened("tiny/model").complete(ASKED)
    assert len(served.sent) == sent


def test_an_interrupted_download_continues(served, cache, tiny_models):
    served.broken = {"model.safetensors"}
    with pytest.raises(TemporaryError, match="the hub is unreachable"):
        opened("tiny/model").complete(ASKED)
    assert list(cache.rglob("config.json")), "the files before the interruption are there"
    assert find_model("Model 'tiny'", "tiny/model") is None, "it must be downloaded"
    served.broken.clear()
    served.sent.clear()
    assert opened("tiny/model").complete(ASKED) == opened(tiny_models["gpt2"]).complete(ASKED)
    assert served.sent == [(COMMIT, "model.safetensors")]


def test_a_model_whose_tokenizer_alone_was_opened_before_is_downloaded(served, tiny_models):
    from huggingface_hub import hf_hub_download

    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        hf_hub_download("tiny/model", file)
    # Meanwhile its authors published another version; the files of one folder are of one version.
    served.commit = "f" * 40
    assert find_model("Model 'tiny'", "tiny/model") is None, "it must be downloaded"
    model = opened("tiny/model")
    assert model.complete(ASKED) == opened(tiny_models["gpt2"]).complete(ASKED)
    assert COMMIT in model.identity
    assert (COMMIT, "model.safetensors") in served.sent


def in_two_files(folder: Path, to: Path) -> Path:
    """Write a model whose weights are in two files, with their index."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    size = (folder / "model.safetensors").stat().st_size
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(to, max_shard_size=size // 2 + 1)
    AutoTokenizer.from_pretrained(folder).save_pretrained(to)
    return to


def test_a_part_of_the_weights_that_is_missing_is_downloaded(served, cache, tiny_models, tmp_path):
    served.folder = in_two_files(tiny_models["gpt2"], tmp_path / "parts")
    parts = sorted(served.folder.glob("*.safetensors"))
    assert len(parts) > 1
    in_cache(cache, served.folder)
    (cache / "models--tiny--model" / "snapshots" / COMMIT / parts[0].name).unlink()
    assert opened("tiny/model").complete(ASKED) == opened(tiny_models["gpt2"]).complete(ASKED)
    assert served.sent == [(COMMIT, parts[0].name)]


def test_a_model_that_the_cache_has_in_part_is_refused_where_the_hub_does_not_answer(
    hub, cache, tiny_models, monkeypatch
):
    from huggingface_hub import constants

    folder = in_cache(cache, tiny_models["gpt2"])
    (cache / "models--tiny--model" / "snapshots" / COMMIT / "model.safetensors").unlink()
    hub.update(status=503, code="")
    message = "'tiny/model' is only in part in the hub's local cache, and the hub is "
    with pytest.raises(ConfigError, match=f"{message}unreachable"):
        find_model("Model 'tiny'", folder)
    with pytest.raises(TemporaryError, match=f"{message}unreachable"):
        opened(folder).complete(ASKED)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=f"{message}disabled"):
        find_model("Model 'tiny'", folder)


def test_an_unknown_model_and_a_gated_one_are_final(hub):
    with pytest.raises(FinalError, match="nor on the hub"):
        opened("nobody/nothing").complete(ASKED)
    hub.update(status=403, code="GatedRepo")
    with pytest.raises(FinalError, match="licence"):
        opened("meta-llama/Llama-2-7b-chat-hf").complete(ASKED)


def test_a_model_of_the_hub_is_requested_before_a_run(hub):
    for status, code, revision, message in (
        (
            404,
            "RepoNotFound",
            None,
            "student.model: 'some/model' is neither a folder nor on the hub",
        ),
        (
            404,
            "EntryNotFound",
            "v2",
            "'some/model' at revision v2 on the hub is not for transformers",
        ),
        (503, "", None, "the hub is unreachable"),
    ):
        hub.update(status=status, code=code)
        with pytest.raises(ConfigError, match=message):
            find_model("student.model", "some/model", revision)
    hub.update(status=200, code="", body=["no settings"])
    with pytest.raises(ConfigError, match="'some/model' has no readable config.json on the hub"):
        find_model("student.model", "some/model")
    hub.update(body={"model_type": "bert"})
    assert find_model("student.model", "some/model") is None, "it must be downloaded"


CHATGLM = {"auto_map": {"AutoModel": "modeling_chatglm.Model"}, "model_type": "chatglm"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (CHATGLM, "Model 'tiny': 'some/model' needs Python code of its authors.* Serve the model"),
        ({"model_type": "homemade"}, "of the kind 'homemade', which transformers .* does not know"),
        ({"model_type": "bert"}, None),
        ({"model_type": "vit"}, "which transformers cannot open as a language model"),
        ({"model_type": "llama"}, None),
        # Published with code before the library knew the kind, and opened without it today.
        ({"model_type": "falcon", "auto_map": CHATGLM["auto_map"]}, None),
        ({"architectures": ["GPT2LMHeadModel"]}, None),
    ],
)
def test_the_settings_on_the_hub_decide_before_a_run(hub, cache, settings, message):
    hub.update(status=200, code="", body=settings)
    spec = ModelSpec("tiny", "hf", "some/model")
    if message is None:
        HfModel.check_spec(spec)
    else:
        with pytest.raises(ConfigError, match=message):
            HfModel.check_spec(spec)
    assert not list(cache.rglob("config.json")), "the cache would look like that of a whole model"


def test_sizes_are_of_the_files_that_would_be_downloaded(hub):
    sizes = {"config.json": 1, "model.safetensors": 20, "pytorch_model.bin": 30, "onnx/m.onnx": 40}
    siblings = [{"rfilename": name, "size": size} for name, size in sizes.items()]
    hub.update(status=200, code="", body={"id": "some/model", "siblings": siblings})
    assert measure_hub_files("some/model", None) == HubFiles(bytes=21, weights=20, gated=False)
    siblings.pop(1)
    hub.update(body={"id": "some/model", "siblings": siblings, "gated": "manual"})
    assert measure_hub_files("some/model", None) == HubFiles(bytes=31, weights=30, gated=True)
    hub.update(status=503)
    assert measure_hub_files("some/model", None) is None


def test_a_hub_that_does_not_answer_is_worth_another_try(hub, monkeypatch):
    from huggingface_hub import constants

    hub.update(status=503, code="")
    with pytest.raises(TemporaryError, match="is unreachable"):
        opened("openai-community/gpt2-xl").complete(ASKED)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(TemporaryError, match="is unreachable"):
        opened("openai-community/gpt2-xl").complete(ASKED)


def test_offline_a_model_that_is_not_cached_is_final(cache):
    with pytest.raises(FinalError, match="disabled"):
        opened("openai-community/gpt2-xl").complete(ASKED)


@pytest.fixture
def binary(tiny_models, tmp_path) -> Path:
    from safetensors.torch import load_file

    folder = shutil.copytree(tiny_models["llama"], tmp_path / "binary")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_older_weights_are_read_without_others(binary, tiny_models):
    assert opened(binary).complete(ASKED) == opened(tiny_models["llama"]).complete(ASKED)


def test_code_hidden_in_older_weights_is_not_run(binary, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    (binary / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Bomb()}))
    with pytest.raises(FinalError, match="cannot be loaded"):
        opened(binary).complete(ASKED)
    assert not (tmp_path / "exploded").exists()


@pytest.fixture
def with_code(tiny_models, tmp_path) -> Path:
    folder = shutil.copytree(tiny_models["llama"], tmp_path / "coded")
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "homemade"
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(
        "from pathlib import Path\nfrom transformers import LlamaConfig, LlamaForCausalLM\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'homemade'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    return folder


def test_code_of_a_models_authors_is_not_run_unasked(with_code, tmp_path):
    with pytest.raises(FinalError, match="never run here"):
        opened(with_code).complete(ASKED)
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_needs_code_is_refused_before_a_run(with_code):
    with pytest.raises(ConfigError, match=f"{with_code} needs Python code of its authors"):
        HfModel.check_spec(ModelSpec("tiny", "hf", str(with_code)))


def test_a_damaged_folder_is_final(tiny_models, tmp_path):
    folder = shutil.copytree(tiny_models["gpt2"], tmp_path / "damaged")
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(FinalError, match="cannot be loaded"):
        opened(folder).complete(ASKED)


def test_threads_that_open_models_first_thing_do_not_see_a_half_imported_library(tiny_models):
    program = """
import sys
from concurrent.futures import ThreadPoolExecutor
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.transformers.model import HfModel

def reason(folder):
    model = HfModel.from_spec(ModelSpec("tiny", "hf", folder))
    return model.complete([Prompt("Write", "x", max_tokens=3)])[0].finish_reason

with ThreadPoolExecutor(3) as pool:
    print(*pool.map(reason, sys.argv[1:]))
"""
    command = [sys.executable, "-c", program, *map(str, tiny_models.values())]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert set(done.stdout.split()) <= {"length", "stop"}, done.stderr[-2000:]
    assert len(done.stdout.split()) == 3, done.stderr[-2000:]
