"""Install the project with an extra, or for development, into this environment: `python infra/install.py demo`.

Called by the Makefile. uv, installed into the environment first, installs everything else in a tenth of pip's processor
time. Without a GPU it takes the CPU build of torch from the vendor's index, if that answers. Versions and hashes come
from requirements.lock, which `make lock` writes anew.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ANSWER_SECONDS = 4
SIZES = {"demo": "3 GB", "stack": "3 GB", "dev": "4 GB"}
"""Disk space of the environment with the CPU build of torch."""
GPU_SIZE = "5 GB more"
DEV = "dev"
"""All extras, and the dependency group of development, which is not in the package's metadata."""
PIP_SETTINGS = {
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
}
"""Settings of pip and the variables in which uv takes them; like pip, uv then takes the best version of all indexes."""


def main(extra: str) -> int:
    """Print what is installed, how large it is and from where; install it."""
    on_gpu, index = has_gpu(), "" if has_gpu() else cpu_index()
    size = SIZES.get(extra, "some GB") + (
        "" if index else f" (and up to {GPU_SIZE} with the CUDA build of torch)"
    )
    reason = (
        "a GPU was found"
        if on_gpu
        else "no GPU"
        if index
        else f"no GPU, but {CPU_INDEX} does not answer"
    )
    build = "the CPU build" if index else "the default build"
    print(
        f"Installing [{extra}]: about {size} of disk, a minute or two. torch: {build} ({reason}).",
        flush=True,
    )
    python = [sys.executable, "-m"]
    uv = [*python, "uv", "pip", "install", "--quiet", "--python", sys.executable]
    indexes = [
        "--index-strategy",
        "unsafe-best-match",
        *(["--extra-index-url", index] if index else []),
    ]
    group = ["--group", f"{ROOT / 'pyproject.toml'}:dev"] if extra == DEV else []
    project = ["-c", str(LOCK), *group, "-e", f"{ROOT}[{'all' if extra == DEV else extra}]"]
    pinned_uv = next(
        line.split()[0] for line in LOCK.read_text().splitlines() if line.startswith("uv==")
    )
    commands = [
        [*python, "pip", "install", "--quiet", pinned_uv],
        [*uv, "--no-deps", "--require-hashes", "-r", str(ROOT / "infra" / "models.txt")],
        [*uv, *indexes, *project],
    ]
    for command in commands:
        done = subprocess.run(command, check=False, env=os.environ | uv_settings())
        if done.returncode:
            return done.returncode
    return 0


def lock() -> int:
    """Write the lock for all extras, systems and Python versions; the builds of torch differ, so it gets no hash."""
    options = [
        "--all-extras",
        "--group",
        "dev",
        "--universal",
        "--python-version",
        "3.11.7",
        "--generate-hashes",
    ]
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "pyproject.toml", *options]
    # Link folders and further indexes may contain one build of a package alone, not the hashes of all.
    environment = {**os.environ, **uv_settings(), "UV_FIND_LINKS": "", "UV_INDEX": ""}
    quiet = ["--no-annotate", "--no-header", "-o", str(LOCK)]
    done = subprocess.run([*command, *quiet], check=False, cwd=ROOT, env=environment)
    if not done.returncode:
        LOCK.write_text(re.sub(r"(?m)^(torch==\S+)( \\\n +--hash\S+)+", r"\1", LOCK.read_text()))
    return done.returncode


def uv_settings() -> dict[str, str]:
    """Return pip's indexes and link folders, from its files and environment, as variables of uv."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    settings: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        scope, _, key = name.partition(".")
        variable = PIP_SETTINGS.get(key.replace("_", "-"))
        if (
            variable
            and variable not in os.environ
            and (variable not in settings or scope == ":env:")
        ):
            settings[variable] = " ".join(value.strip("'\"").replace("\\n", " ").split())
    return settings


def has_gpu() -> bool:
    """Return True if this machine has an NVIDIA driver."""
    return Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None


def cpu_index() -> str:
    """Return the address of the CPU builds, empty if they are the default here or do not answer."""
    if platform.system() != "Linux":
        return ""
    try:
        with urlopen(f"{CPU_INDEX}/torch/", timeout=ANSWER_SECONDS):  # noqa: S310  (a constant https address)
            return CPU_INDEX
    except (URLError, OSError):
        return ""


if __name__ == "__main__":
    sys.exit(lock() if "--lock" in sys.argv else main(*sys.argv[1:]))
