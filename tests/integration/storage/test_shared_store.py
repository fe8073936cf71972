"""Artifacts that several machines share: behind s3:// and in a shared folder they keep the same promises."""

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from connectors.artifacts import remote_files
from connectors.artifacts.remote_files import RemoteFiles, check_address
from connectors.artifacts.store import MARK, Artifacts
from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.errors import ArtifactError, ConfigError, MissingPackageError
from tests.support.servers.s3 import S3Server, s3_server

KEY = StepKey("step", 1, {"size": 3})
TABLE = pd.DataFrame({"text": ["a", "ü"], "number": [1, 2]})
PATH = "runs/one/iteration=1/table.parquet"
Machine = Callable[[str], Artifacts]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=["s3", "folder"])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store."""
    if request.param == "folder":
        return str(tmp_path / "shared")
    server: S3Server = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server.bucket(f"bucket-{tmp_path.name.replace('_', '-').lower()[-40:].strip('-')}")


@pytest.fixture
def machine(address: str, tmp_path: Path) -> Machine:
    """Machines by name, each with a state folder of its own and the same store."""
    return lambda name: Artifacts(tmp_path / name, address)


def test_what_one_machine_wrote_another_reuses(machine: Machine, tmp_path: Path) -> None:
    ref = machine("a").write_table(PATH, TABLE, KEY, {"told": 1})
    assert Artifacts(tmp_path / "local").write_table(PATH, TABLE, KEY, {"told": 1}) == ref
    other = pickle.loads(pickle.dumps(machine("b")))
    assert (
        other.look_up(PATH, StepKey("step", 1, {"size": 4}))[1]
        == "recomputed because its parameters changed"
    )
    result, why = other.look_up(PATH, KEY)
    assert why.startswith("reused because")
    assert (result.sha256, result.reused) == (ref.sha256, True)
    pd.testing.assert_frame_equal(other.read_table(ref), TABLE)
    assert other.info(ref) == {"told": 1}
    assert other.exists(PATH)


def test_every_kind_of_file_comes_back_on_another_machine(machine: Machine) -> None:
    first, other = machine("a"), machine("b")
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(
        other.read_matrix(first.write_matrix("embeddings/m.parquet", matrix, KEY)), matrix
    )
    assert other.read_json(first.write_json("runs/one/measures.json", {"fid": 0.5}, KEY)) == {
        "fid": 0.5
    }
    folder = first.write_folder("runs/one/student", fill("weights", "words"), KEY)
    assert {file.name: file.read_text() for file in other.read_folder(folder).iterdir()} == {
        "weights": "weights",
        "words": "words",
    }
    first.write_text("runs/one/manifest.json", '{"run_id": "one"}')
    assert other.read_text("runs/one/manifest.json") == '{"run_id": "one"}'
    assert other.read_text("runs/two/manifest.json") is None
    assert other.list_runs() == [{"run_id": "one"}]
    assert (other.fetch("runs/one/student") / "words").read_text() == "words"


def test_a_folder_that_shrinks_leaves_nothing_of_the_old_one(machine: Machine) -> None:
    first, other = machine("a"), machine("b")
    first.write_folder("runs/one/student", fill("old", "both"), KEY)
    newer = StepKey("step", 2)
    ref = first.write_folder("runs/one/student", fill("both"), newer)
    assert other.find("runs/one/student", newer) is not None
    assert [file.name for file in other.read_folder(ref).iterdir()] == ["both"]


def test_private_files_never_leave_the_machine(machine: Machine, address: str) -> None:
    first = machine("a")
    first.write_private_arrays("private/votes/one.npz", {"vectors": np.ones(3)})
    ref = first.write_matrix("private/reference/m.parquet", np.ones((2, 2), dtype=np.float32), KEY)
    assert first.find(ref.path, KEY) is not None
    first.write_table(PATH, TABLE, KEY)
    assert not [
        name for name in RemoteFiles(address).below("") if "private" in name or "one.npz" in name
    ]
    other = machine("b")
    assert other.read_private_arrays("private/votes/one.npz") is None
    assert other.find(ref.path, KEY) is None
    assert other.where("private/x") == str(other.home / "private/x")


def test_damaged_content_in_the_store_is_noticed(machine: Machine, address: str) -> None:
    ref = machine("a").write_table(PATH, TABLE, KEY)
    RemoteFiles(address).write(PATH, b"something else")
    other = machine("b")
    assert other.look_up(PATH, KEY) == (None, "recomputed because the file is damaged")
    with pytest.raises(ArtifactError, match="the file is damaged"):
        machine("c").read_table(ref)
    with pytest.raises(ArtifactError, match="the file is damaged"):
        machine("d").fetch(PATH)


def test_what_could_not_be_sent_is_sent_by_the_next_attempt_and_not_made_again(
    machine: Machine, address: str, tmp_path: Path
) -> None:
    ref = Artifacts(tmp_path / "a").write_table(
        PATH, TABLE, KEY
    )  # written here, and then the store did not answer
    assert RemoteFiles(address).read(PATH) is None
    assert machine("a").find(PATH, KEY)
    assert machine("b").read_table(ref).equals(TABLE)


def test_finished_artifacts_are_listed_by_pattern(machine: Machine) -> None:
    entry = machine("a")
    entry.write_table("runs/one/iteration=0/release.parquet", TABLE, KEY, {"ledger_entry": "x"})
    entry.write_table("runs/two/iteration=0/release.parquet", TABLE, KEY)
    entry.write_table("runs/two/iteration=0/other.parquet", TABLE, KEY)
    result = machine("b").finished("runs/*/iteration=*/release.parquet")
    assert list(result) == [
        "runs/one/iteration=0/release.parquet",
        "runs/two/iteration=0/release.parquet",
    ]
    assert result["runs/one/iteration=0/release.parquet"]["info"] == {"ledger_entry": "x"}


def test_a_store_that_does_not_answer_is_an_error_and_never_an_empty_one(
    machine: Machine, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not address.startswith("s3"):
        pytest.skip("a folder always answers")
    entry = machine("a")
    ref = entry.write_table(PATH, TABLE, KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    gone, started = machine("a"), time.monotonic()
    for ask in (
        lambda: gone.find(PATH, KEY),
        lambda: gone.exists("runs/one/iteration=1/other.parquet"),
        lambda: gone.read_text("runs/one/manifest.json"),
        lambda: gone.write_table(PATH, TABLE, KEY),
        gone.list_runs,
        gone.check,
    ):
        with pytest.raises(
            ArtifactError, match="The artifact store is not available: .*wasp resume RUN_ID"
        ):
            ask()
    assert time.monotonic() - started < 60
    # the files of this machine are whole, even if the network fails
    assert gone.read_table(ref).equals(TABLE)


def test_a_store_that_hangs_does_not_hold_a_write_forever(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote_files, "SECONDS", 2.0)
    store = Artifacts(tmp_path / "a", s3.bucket("bucket-that-hangs"))
    store.check()
    os.kill(s3.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ArtifactError, match="The artifact store is not available"):
            store.write_text("runs/one/manifest.json", "{}")
    finally:
        os.kill(s3.process.pid, signal.SIGCONT)


def test_a_store_that_lost_what_it_held_is_refused_instead_of_filled_again(
    machine: Machine, address: str
) -> None:
    machine("a").check()
    machine("a").check()
    RemoteFiles(address).remove([MARK])
    with pytest.raises(ArtifactError, match="is empty now"):
        machine("a").check()
    machine("b").check()  # a machine that never saw it begins it


def test_a_bucket_that_does_not_exist_is_reported_before_anything_is_made(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ArtifactError, match="the bucket exists"):
        Artifacts(tmp_path / "a", "s3://no-such-bucket/wasp").check()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://host/folder", "unknown scheme"),
        ("s3://key:secret@bucket/wasp", "password"),
        ("gs://bucket/wasp", "pip install gcsfs"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused(
    address: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=words):
        check_address(address)
    assert RemoteFiles(f"file://{tmp_path}/").url_of("x") == f"{tmp_path}/x"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install .*\[s3\]'"):
        check_address("s3://bucket/wasp")


def fill(*names: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name in names:
            (folder / name).write_text(name)

    return write
