"""Everything that a method, a metric or a connector of another package imports; other modules may change.

A package announces a method, a metric or a connector by an entry point of the group `wasp.methods`, `wasp.metrics` or
`wasp.connectors`. The names of runs and steps are imported on first use, because they load Prefect.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from connectors.interfaces.addresses import Host, PublicFile
from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.earlier_names import warn_earlier
from connectors.interfaces.errors import ConfigError, MissingPackageError, WaspError
from connectors.interfaces.models import Completion, LanguageModel, ModelSpec, keep_nothing
from connectors.interfaces.prompts import Prompt
from connectors.models.base.options import read_options
from flows.config.base import AnyConfig, OwnRowsConfig, RunConfig
from flows.config.files import Changes
from flows.config.method import AnyMethod, RoundsMethod, VotingScheme
from flows.method import Method
from flows.methods.voting import vote_releases
from tasks.accounting.guarantee import Guarantee, no_release
from tasks.metrics.registry import LabelledRows, Metric, MetricInput
from tasks.reporting.run_record import Section
from tasks.steps.values import TextTable

if TYPE_CHECKING:
    from flows.engine.lifecycle import method_flow
    from flows.engine.run import Run
    from tasks.evaluation.steps import measure_iteration
    from tasks.prefect.runtime import run_step
    from tasks.prefect.writing import embedded, generate

__all__ = ["Guarantee"]
__all__ += [
    "AnyConfig",
    "AnyMethod",
    "ArtifactRef",
    "Changes",
    "ConfigError",
    "Method",
    "OwnRowsConfig",
]
__all__ += [
    "RoundsMethod",
    "RunConfig",
    "Section",
    "TextTable",
    "VotingScheme",
    "WaspError",
    "no_release",
]
__all__ += ["Releases", "vote_releases"]
__all__ += [
    "Completion",
    "LanguageModel",
    "MissingPackageError",
    "ModelSpec",
    "Prompt",
    "keep_nothing",
]
__all__ += ["Host", "PublicFile"]
__all__ += ["LabelledRows", "Metric", "MetricInput", "read_options"]
__all__ += ["Run", "embedded", "generate", "measure_iteration", "method_flow", "run_step"]

EARLIER = {"Casting": "VotingScheme", "Written": "TextTable"}
"""Names of earlier versions, which work for one minor version and warn."""

# Prefect reads its settings on its first import, which the import of a plug-in must not cause.
_MODULES = {
    "Run": "flows.engine.run",
    "embedded": "tasks.prefect.writing",
    "generate": "tasks.prefect.writing",
    "measure_iteration": "tasks.evaluation.steps",
    "method_flow": "flows.engine.lifecycle",
    "run_step": "tasks.prefect.runtime",
}


def Releases(guarantee: Guarantee[Any], releases: Sequence[Any] = ()) -> Guarantee[Any]:
    """Return a guarantee with these releases: the name that methods of earlier versions use."""
    warn_earlier("wasp.extend", "Releases", "replace(guarantee, releases=...)", stacklevel=2)
    return replace(guarantee, releases=(*guarantee.releases, *releases))


def __getattr__(name: str) -> Any:
    """Import the names of runs and steps on first use; return what has an earlier name."""
    if name in EARLIER:
        warn_earlier("wasp.extend", name, EARLIER[name], stacklevel=2)
        return globals()[EARLIER[name]]
    if name not in _MODULES:
        raise AttributeError(f"module 'wasp.extend' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
