"""The state folder: a place that others can read is no place for private files."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from connectors.interfaces.errors import ConfigError
from flows.runtime.prefect_server import require_server
from flows.runtime.state_folder import check_closed, open_to_others, state_folder
from tests.support.processes.nobody import as_nobody
from tests.support.servers.ports import free_port


@pytest.fixture
def shared_machine() -> Iterator[Path]:
    """A folder that every user of the machine can enter: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_folder_below_a_closed_one_is_closed(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    inner.chmod(0o755)
    (tmp_path / "a").chmod(0o700)
    assert not open_to_others(inner)


def test_an_open_state_folder_is_refused_with_the_command_that_closes_it(
    shared_machine: Path,
) -> None:
    with pytest.raises(ConfigError, match=f"mode 755.*chmod 700 {shared_machine}"):
        check_closed(shared_machine)
    shared_machine.chmod(0o700)
    check_closed(shared_machine)


def test_on_a_mounted_volume_the_private_folder_alone_must_be_closed(
    shared_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = shared_machine / "private"
    private.mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: shared_machine.stat().st_uid + 1)
    check_closed(shared_machine)
    private.chmod(0o755)
    with pytest.raises(ConfigError, match=f"chmod 700 {private}"):
        check_closed(shared_machine)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_closed_state_folder_of_another_user_is_refused(
    shared_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_machine.chmod(0o700)
    monkeypatch.setenv("WASP_HOME", str(shared_machine))

    def refusal() -> list[str]:
        with pytest.raises(ConfigError) as refused:
            state_folder()
        return [str(refused.value)]

    assert state_folder() == shared_machine
    os.chown(shared_machine, 65534, 65534)
    assert as_nobody(refusal) == [
        f"The state folder {shared_machine} belongs to another user and is closed. Set WASP_HOME to your own"
    ]


# --- a Prefect server that does not respond is named before a flow starts
def test_a_server_that_does_not_respond_is_named_with_what_to_do() -> None:
    address = f"http://joe:hunter2@127.0.0.1:{free_port()}/api"
    with temporary_settings({PREFECT_API_URL: address}), pytest.raises(ConfigError) as refused:
        require_server()
    assert "127.0.0.1" in str(refused.value)
    assert "unset PREFECT_API_URL" in str(refused.value)
    assert "hunter2" not in str(refused.value)
