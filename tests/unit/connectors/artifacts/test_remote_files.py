"""Each writer of an exchange has a folder of its own, which other users cannot change."""

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connectors.artifacts.remote_files import RemoteFiles
from connectors.interfaces.errors import ConfigError


def test_a_writer_writes_and_removes_below_its_own_folder_only(tmp_path: Path) -> None:
    files = pickle.loads(pickle.dumps(RemoteFiles(str(tmp_path), "parties/a")))
    files.write("parties/a/rounds/r/keys", b"mine")
    assert RemoteFiles(str(tmp_path), "parties/b").read("parties/a/rounds/r/keys") == b"mine"
    for name in (
        "parties/b/rounds/r/keys",
        "rounds/r/go.json",
        "parties/a",
        "parties/a/../b/keys",
        "parties/ab/keys",
    ):
        with pytest.raises(ConfigError, match="the only folder of this writer"):
            files.write(name, b"forged")
        with pytest.raises(ConfigError, match="the only folder of this writer"):
            files.remove([name])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["keys"]


def test_folders_of_a_writer_are_closed_to_the_group_regardless_of_the_umask(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        RemoteFiles(str(tmp_path), "parties/a").write("parties/a/rounds/r/keys", b"mine")
    finally:
        os.umask(before)
    own = tmp_path / "parties/a"
    assert {path.stat().st_mode & 0o777 for path in (own, *own.rglob("*")) if path.is_dir()} == {
        0o755
    }


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    own = tmp_path / "rounds"
    own.mkdir()
    own.chmod(mode)
    with pytest.raises(ConfigError, match=f"other users can write to {own}.*chmod go-w"):
        RemoteFiles(str(tmp_path), "rounds").write("rounds/r/plan", b"")


def test_an_exchange_for_several_users_needs_the_sticky_bit(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match=r"can rename the folders.*chmod \+t"):
        RemoteFiles(str(tmp_path), "parties/a").write("parties/a/keys", b"")
    tmp_path.chmod(0o1777)
    RemoteFiles(str(tmp_path), "parties/a").write("parties/a/keys", b"")
    assert (tmp_path / "parties").stat().st_mode & 0o7777 == 0o1777, (
        "the next party creates its folder there"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "parties/a"
    own.mkdir(parents=True)
    os.chown(own, 65534, -1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        RemoteFiles(str(tmp_path), "parties/a").write("parties/a/keys", b"")


def test_writers_that_start_at_once_all_get_their_folders(tmp_path: Path) -> None:
    for attempt in range(30):
        root, together = tmp_path / str(attempt), threading.Barrier(6)
        root.mkdir()
        root.chmod(0o1777)

        def start(name: str, root: Path = root, together: threading.Barrier = together) -> None:
            together.wait()
            RemoteFiles(str(root), f"parties/{name}").write(f"parties/{name}/keys", b"")

        with ThreadPoolExecutor(6) as writers:
            list(writers.map(start, "abcdef"))
        assert sorted(path.parent.name for path in root.rglob("keys")) == list("abcdef")
        assert [path.name for path in root.iterdir()] == ["parties"]
        assert (root / "parties").stat().st_mode & 0o7777 == 0o1777
