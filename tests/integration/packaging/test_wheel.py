"""The built wheel, installed into an environment without the checkout, runs the demo."""

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command to its end; return what it printed."""
    stored = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WASP_", "PREFECT_", "PYTHON"))
    }
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=stored | variables,
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def wasp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the tracked files, install it alone, and return its command."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "source").mkdir()
    tracked = run("git", "ls-files", cwd=ROOT).splitlines()
    for name in filter(lambda name: (ROOT / name).is_file(), tracked):
        target = folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--quiet"]
    run(
        *pip,
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        folder / "source",
        cwd=folder,
    )
    (built,) = folder.glob("*.whl")
    assert built.name.startswith("wasp_synth-0.2.0-")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", built, cwd=folder)
    libraries = Path(
        run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=folder).strip()
    )
    # Dependencies come from this environment; its own .pth files, the checkout's among them, are not read.
    (libraries / "dependencies.pth").write_text(site.getsitepackages()[0] + "\n")
    return folder / "env" / "bin" / "wasp"


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel(wasp: Path, tmp_path: Path) -> None:
    location = run(
        wasp.with_name("python"),
        "-c",
        "import flows, wasp; print(flows.__file__, wasp.__file__)",
        cwd=tmp_path,
    )
    assert str(ROOT) not in location
    printed = run(
        wasp,
        "run",
        "demo",
        "--set",
        "method.samples=180",
        "--set",
        "student.kind=linear",
        cwd=tmp_path,
    )
    assert "student accuracy" in printed
    (report,) = (tmp_path / ".wasp" / "runs").glob("*/report.html")
    assert "<svg" in report.read_text(encoding="utf-8")
    run(wasp, "export", "latest", tmp_path / "out", cwd=tmp_path)
    assert (tmp_path / "out" / "README.md").exists()
