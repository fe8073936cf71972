"""The command's description of itself."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from flows.cli.main import app, main
from flows.runtime.state_folder import prepare_environment
from tests.support.paths import ROOT

HELP = """
import sys
from flows.cli.main import main
sys.argv = ["wasp", "--help"]
try:
    main()
finally:
    print(*sys.modules)
"""


def test_help_shows_every_command_s_sentence_as_a_whole_and_loads_no_library_that_draws() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELP], cwd=ROOT, capture_output=True, text=True, check=True
    )
    text = " ".join(done.stdout.split())
    sentences = [
        " ".join((entry.callback.__doc__ or "").split("\n\n")[0].split())
        for entry in app.registered_commands
    ]
    assert len(sentences) > 10
    for sentence in sentences:
        assert sentence.rstrip(".").split(". ")[0] in text
    loaded = done.stdout.splitlines()[-1].split()
    assert "flows.cli.main" in loaded
    assert not {
        "rich",
        "prefect",
        "pandas",
        "numpy",
        "pydantic",
        "sqlalchemy",
        "mlflow",
        "torch",
        "openai",
    } & set(loaded)


def test_version_and_short_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option, expected in (("--version", "wasp "), ("-h", "Several parties:")):
        with pytest.raises(SystemExit) as end:
            typer.main.get_command(app)([option])
        assert end.value.code in (0, None)
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.EROFS, "x", "out/a.yaml"),
            "out/a.yaml: read-only file system. Use a folder on another disk",
        ),
        (
            PermissionError(errno.EACCES, "x", "/closed"),
            "/closed: permission denied. Check who owns it",
        ),
        (
            FileNotFoundError(errno.ENOENT, "x"),
            "A file or folder: no such file or directory. Check the path",
        ),
        (OSError(errno.ENOSPC, "x", "/full"), "/full: no space left on device. Free space"),
    ],
)
def test_an_error_of_a_file_is_one_message(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    message: str,
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("flows.cli.main.app", fail)
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err.startswith(f"wasp: {message}")) == (1, True)
    monkeypatch.setattr(
        "flows.cli.main.app", lambda: (_ for _ in ()).throw(OSError("no number: a mistake"))
    )
    with pytest.raises(OSError, match="a mistake"):
        main()


def test_a_home_folder_that_cannot_be_read_has_no_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/" + "x" * 5000)  # as a closed one: looking into it is an error
    monkeypatch.setenv("WASP_HOME", str(tmp_path))
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    prepare_environment()
    assert os.environ["PREFECT_HOME"] == str(tmp_path / "prefect")
