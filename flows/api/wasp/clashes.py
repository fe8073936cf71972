"""Files of a user's project that have the name of a package of this product: Python imports only one of them.

Imports nothing of the product, because that is what a clash breaks.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("connectors", "tasks", "flows", "deployments")
APART = "Rename it, or install the command in an environment of its own: uv tool install '.[demo]' in its clone"


def find_clashes() -> tuple[list[str], list[str]]:
    """Return messages about files that hide our packages, and about files that our packages hide."""
    # Two entries of sys.path may be one folder, and an empty entry is the working folder.
    hiding = []
    hidden = []
    folders = dict.fromkeys(Path(entry or ".").resolve() for entry in sys.path)
    others = [folder for folder in folders if not _is_ours(folder)]
    for name in PACKAGES:
        spec = find_spec(name)
        if spec and spec.origin and not _is_ours(Path(spec.origin).parent.parent):
            hiding.append(
                f"{spec.origin}: Python imports it in place of the package '{name}' of wasp-synth. {APART}"
            )
            continue
        for folder in others:
            files = [folder / f"{name}.py", *(folder / name).glob("*.py")]
            clash = next((file for file in files if file.is_file()), None)
            if clash:
                hidden.append(
                    f"{clash}: Python imports the package '{name}' of wasp-synth in its place. {APART}"
                )
    return hiding, hidden


def _is_ours(folder: Path) -> bool:
    """Return whether a folder contains the packages of this product, installed or as a checkout."""
    return (folder / "connectors" / "interfaces" / "errors.py").is_file()
