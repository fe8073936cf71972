"""Install the project with extras into the environment of this interpreter: `python infra/install.py demo`.

Called by the Makefile. uv, installed into the environment first, installs everything else in a tenth of pip's processor
time. Without a GPU it takes the CPU build of torch from the vendor's index, if that answers. Versions come from
constraints.txt.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ANSWER_SECONDS = 4
SIZES = {"demo": "3 GB", "stack": "3 GB", "dev": "4 GB"}
"""Disk space of the environment with the CPU build of torch."""
GPU_SIZE = "5 GB more"
PIP_SETTINGS = {"find-links": "UV_FIND_LINKS", "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
"""Settings of pip and the variables in which uv takes them; like pip, uv then takes the best version of all indexes."""


def main(extra: str) -> int:
    """Print what is installed, how large it is and from where; install it."""
    on_gpu, index = has_gpu(), "" if has_gpu() else cpu_index()
    size = SIZES.get(extra, "some GB") + ("" if index else f" (and up to {GPU_SIZE} with the CUDA build of torch)")
    reason = "a GPU was found" if on_gpu else "no GPU" if index else f"no GPU, but {CPU_INDEX} does not answer"
    build = "the CPU build" if index else "the default build"
    print(f"Installing [{extra}]: about {size} of disk, a minute or two. torch: {build} ({reason}).", flush=True)
    python = [sys.executable, "-m"]
    uv = [*python, "uv", "pip", "install", "--quiet", "--python", sys.executable]
    indexes = ["--index-strategy", "unsafe-best-match", *(["--extra-index-url", index] if index else [])]
    project = ["-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}[{extra}]"]
    commands = [
        [*python, "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), "uv"],
        [*uv, "--no-deps", "--require-hashes", "-r", str(ROOT / "infra" / "minilm.txt")],
        [*uv, *indexes, *project],
    ]
    for command in commands:
        done = subprocess.run(command, check=False, env=os.environ | uv_settings())
        if done.returncode:
            return done.returncode
    return 0


def uv_settings() -> dict[str, str]:
    """Return pip's indexes and link folders, from its files and environment, as variables of uv."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    settings: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        scope, _, key = name.partition(".")
        variable = PIP_SETTINGS.get(key.replace("_", "-"))
        if variable and variable not in os.environ and (variable not in settings or scope == ":env:"):
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
    sys.exit(main(*sys.argv[1:]))
