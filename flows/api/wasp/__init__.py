"""Python interface: run, plan and compare methods, register datasets, read results as pandas or pyarrow.

    from wasp import Dataset, plan, run

    Dataset.register("clinic", "notes.csv", text="note", label="kind", classes=["pain", "skin"], declared_rows=1000)
    plan("triage")["epsilon_exact"]
    result = run("triage", {"privacy.epsilon": 2})
    result.texts.head()

A configuration is a file or a name, as on the command line. All functions raise `WaspError` with the message of the
command. The state folder is `.wasp` in the working folder, or WASP_HOME.
"""

import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasp.clashes import find_clashes

_hiding, _hidden = find_clashes()
# "-m": Python looks for the module wasp.__main__.
_is_command = Path(sys.argv[0]).name in ("wasp", "-m")
# Before any import of the product: the wrong package would fail with a message about a missing name.
if _hiding and _is_command:
    raise SystemExit(_hiding[0])
if _hiding:
    raise ImportError(_hiding[0])
# `wasp doctor` reports it for the command.
if _hidden and not _is_command:
    warnings.warn(_hidden[0], stacklevel=2)

from connectors.interfaces.errors import WaspError  # noqa: E402

if TYPE_CHECKING:
    from wasp.datasets import Dataset
    from wasp.results import (
        Comparison,
        Preview,
        Result,
        advise,
        compare,
        plan,
        preview,
        result,
        resume,
        run,
        runs,
    )

__all__ = [
    "Comparison",
    "Dataset",
    "Preview",
    "Result",
    "WaspError",
    "advise",
    "compare",
    "plan",
    "preview",
    "result",
    "resume",
    "run",
    "runs",
]


def __dir__() -> list[str]:
    """List the interface alone: completion shows what users import, loaded or not."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import the interface on first use: the command and plug-ins need none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'wasp' has no attribute '{name}'")
    from flows.runtime.state_folder import prepare_environment

    # Before the first import of Prefect.
    prepare_environment()
    module = "wasp.datasets" if name == "Dataset" else "wasp.results"
    return getattr(import_module(module), name)
