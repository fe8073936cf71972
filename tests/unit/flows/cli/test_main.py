"""What the command says of itself."""

import subprocess
import sys

import pytest
import typer

from flows.cli.main import app
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


def test_help_tells_every_command_s_sentence_as_a_whole_and_loads_no_library_that_draws() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], cwd=ROOT, capture_output=True, text=True, check=True)
    text = " ".join(done.stdout.split())
    sentences = [" ".join((one.callback.__doc__ or "").split("\n\n")[0].split()) for one in app.registered_commands]
    assert len(sentences) > 10
    for sentence in sentences:
        assert sentence.rstrip(".").split(". ")[0] in text
    loaded = done.stdout.splitlines()[-1].split()
    assert "flows.cli.main" in loaded
    assert not {"rich", "prefect", "pandas", "numpy", "pydantic", "sqlalchemy", "mlflow", "torch", "openai"} & set(
        loaded
    )


def test_version_and_short_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option, expected in (("--version", "wasp "), ("-h", "Several parties:")):
        with pytest.raises(SystemExit) as end:
            typer.main.get_command(app)([option])
        assert end.value.code in (0, None)
        assert expected in capsys.readouterr().out
