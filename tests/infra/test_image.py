"""The Dockerfile: pinned, small in what it copies, no root, no secret."""

import fnmatch
import json
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.utils import canonicalize_name

from tests.support.infra_files import INFRA, beside_python
from tests.support.paths import ROOT

DOCKERFILE = INFRA / "Dockerfile"
TEXT = DOCKERFILE.read_text()


def instructions() -> list[tuple[str, str]]:
    """Return the instructions with their lines joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", TEXT, flags=re.MULTILINE))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()]


def stages() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for word, rest in instructions():
        if word == "FROM":
            parent, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            found[name] = list(found.get(parent, []))
        elif found:
            found[list(found)[-1]].append((word, rest))
    return found


def pip_commands() -> list[str]:
    runs = [rest for word, rest in instructions() if word == "RUN"]
    return [part.strip() for run in runs for part in run.split("&&") if "pip install" in part]


def test_hadolint_finds_nothing():
    done = subprocess.run([beside_python("hadolint"), str(DOCKERFILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_there_is_one_image_for_each_kind_of_machine():
    assert list(stages()) == ["base", "packages", "packages-cpu", "packages-gpu", "cpu", "gpu"]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_a_container_runs_without_root_and_starts_by_the_entrypoint(name):
    found = stages()[name]
    assert [rest for word, rest in found if word == "USER"] == ["1001"]
    assert [word for word, _ in found][-3:] == ["USER", "ENTRYPOINT", "CMD"]
    assert ("ENTRYPOINT", '["/usr/bin/tini", "-g", "--", "/opt/prefect/entrypoint.sh"]') in found
    assert any("install -D --mode 0755 infra/entrypoint.sh /opt/prefect/entrypoint.sh" in rest for _, rest in found)
    assert any("useradd --uid 1001" in rest for _, rest in found)


def test_every_package_is_pinned():
    commands = pip_commands()
    assert len(commands) == 5
    for command in commands:
        assert "-c constraints.txt" in command or "--require-hashes" in command or "--no-deps" in command, command


def test_the_extras_of_the_image_exist():
    [extras] = [
        rest.partition("=")[2] for word, rest in instructions() if word == "ARG" and rest.startswith("WASP_EXTRAS")
    ]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(declared)


def test_packages_are_made_from_the_files_that_pin_them_alone():
    copied = [rest for word, rest in stages()["packages"] if word == "COPY"]
    assert copied == ["pyproject.toml constraints.txt README.md LICENSE ./", "infra/minilm.txt infra/minilm.txt"]
    assert [rest for word, rest in stages()["cpu"] if word == "COPY"] == [
        "--from=packages-cpu /opt/venv /opt/venv",
        ". .",
    ]


def test_nothing_secret_is_built_in():
    settings = " ".join(rest for word, rest in instructions() if word in ("ENV", "ARG"))
    assert not re.search(r"PASSWORD|SECRET|TOKEN|_KEY|AUTH", settings)


@pytest.mark.parametrize(
    "place",
    [
        ".wasp/private/key",
        "infra/.env",
        "infra/worker.env",
        "infra/private/rows.csv",
        "mlruns/1/x",
        ".git/config",
        "notes.csv",
    ],
)
def test_state_and_data_and_secrets_never_enter_the_image(place):
    assert not enters(place)


@pytest.mark.parametrize(
    "place",
    [
        "flows/methods/wasp/flow.py",
        "deployments/configs/demo.yaml",
        "infra/entrypoint.sh",
        "constraints.txt",
        "connectors/data/support_desk/private.parquet",
    ],
)
def test_what_the_image_needs_enters_it(place):
    assert (ROOT / place).exists()
    assert enters(place)


def enters(place: str) -> bool:
    """Say whether Docker would send this file: the last rule that fits decides."""
    sent = True
    for line in (INFRA / "Dockerfile.dockerignore").read_text().splitlines():
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        keep, pattern = rule.startswith("!"), rule.lstrip("!")
        parts = place.split("/")
        heads = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        fits = any(
            fnmatch.fnmatch(f"/{head}" if pattern.startswith("**/") else head, pattern.replace("**", "*"))
            for head in heads
        )
        sent = keep if fits else sent
    return sent


@pytest.mark.slow
def test_the_pins_hold_for_everything_that_the_image_installs(tmp_path):
    """Resolves what the build installs, in a fresh environment; needs a package index."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    [extras] = [rest.partition("=")[2] for word, rest in instructions() if word == "ARG" and "WASP_EXTRAS" in rest]
    command = f"venv/bin/python -m pip install --dry-run --quiet --report report.json -c constraints.txt .[{extras}]"
    done = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = [item["metadata"]["name"] for item in json.loads((tmp_path / "report.json").read_text())["install"]]
    lines = (tmp_path / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    loose = {str(canonicalize_name(name)) for name in wanted} - pinned - {"wasp-synth", "setuptools"}
    # What CUDA brings is pinned by torch itself.
    assert [name for name in loose if not name.startswith(("nvidia", "cuda", "triton"))] == []
