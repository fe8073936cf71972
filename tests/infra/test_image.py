"""The Dockerfile: pinned, small in what it copies, no root, no secret."""

import fnmatch
import re
import subprocess
import tomllib

import pytest

from tests.support.infra_files import INFRA, beside_python
from tests.support.paths import ROOT

DOCKERFILE = INFRA / "Dockerfile"
TEXT = DOCKERFILE.read_text()


def instructions() -> list[tuple[str, str]]:
    """Return the instructions with their lines joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", TEXT, flags=re.MULTILINE))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()]


def test_hadolint_finds_nothing():
    done = subprocess.run([beside_python("hadolint"), str(DOCKERFILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_extras_of_the_image_exist():
    [extras] = [
        rest.partition("=")[2] for word, rest in instructions() if word == "ARG" and rest.startswith("WASP_EXTRAS")
    ]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(declared)


def test_nothing_secret_is_built_in():
    settings = " ".join(rest for word, rest in instructions() if word in ("ENV", "ARG"))
    assert not re.search(r"PASSWORD|SECRET|TOKEN|_KEY|AUTH", settings)


KEPT_OUT = (
    *(".wasp/private/key", "infra/.env", "infra/worker.env", "infra/private/rows.csv"),
    *("mlruns/1/x", ".git/config", "notes.csv"),
)
NEEDED = (
    *("flows/methods/wasp/flow.py", "deployments/configs/demo.yaml", "infra/entrypoint.sh", "requirements.lock"),
    "connectors/data/support_desk/private.parquet",
)


@pytest.mark.parametrize("place", [*KEPT_OUT, *NEEDED])
def test_what_the_image_needs_enters_it_and_state_data_and_secrets_never(place):
    assert enters(place) == (place in NEEDED)
    assert place not in NEEDED or (ROOT / place).exists()


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
