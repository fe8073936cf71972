"""Install commands for this environment: its interpreter and its checkout."""

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from connectors.interfaces.json_values import Json

PROJECT = "wasp-synth"
UNPINNED = ("litellm",)
"""Extras whose packages need other versions than the lock of the checkout."""


def pip_install() -> str:
    """Return the start of a command that installs packages for this interpreter.

    Environments of uv have no pip.
    """
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:
        return f"uv pip install --python {python}"
    return f"{python} -m pip install"


def install_command(extra: str) -> str:
    """Return the command that installs an extra of this project for this interpreter.

    If the project was installed from a folder, the command installs that folder again with the versions of its lock,
    except for the extras UNPINNED.
    """
    from urllib.parse import unquote, urlsplit

    source = _source()
    folder = Path(unquote(urlsplit(str(source.get("url", ""))).path))
    if "dir_info" not in source or not folder.is_dir():
        return f"{pip_install()} '{PROJECT}[{extra}]'"
    lock = folder / "requirements.lock"
    target = f" {shlex.quote(f'{folder}[{extra}]')}"
    if source["dir_info"].get("editable"):
        target = f" -e{target}"
    python = shlex.quote(sys.executable)
    if lock.is_file() and extra not in UNPINNED:  # pip refuses hashes together with a folder
        return f"{python} -m uv pip install --python {python} -c {shlex.quote(str(lock))}{target}"
    return f"{pip_install()}{target}"


def _source() -> Json:
    """Return the origin of this installation (PEP 610), empty for an index package.

    In a checkout, Python first finds build metadata, which lacks the origin. Therefore all distributions are read.
    """
    from importlib.metadata import distributions

    origins = (package.read_text("direct_url.json") for package in distributions(name=PROJECT))
    return next((dict(json.loads(origin)) for origin in origins if origin), {})
