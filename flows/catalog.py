"""The flows by name: the methods of this repository, those of other packages, and the flows audit and compare.

Other packages add a method with an entry point in the group `wasp.methods`. Its name is the name of the method, its
value the path of a `flows.method.Method`. A flow is imported on its first look-up.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from connectors.interfaces.errors import ConfigError, nearest
from flows.method import FlowEntry, Method

GROUP = "wasp.methods"
METHODS = (
    "wasp",
    "pre_text",
    "aug_pe",
    "fusegen",
    "only_private",
    "dp_sgd_gen",
    "dp_sgd_student",
    "dp_kps",
    "kd_tutor",
)
"""Packages of flows.methods, each of which exports METHOD."""
OTHERS = ("audit", "compare")
"""Packages of flows that are not methods, each of which exports ENTRY."""


def method_names() -> tuple[str, ...]:
    """Return the names of all methods; methods of other packages come last."""
    return (
        *METHODS,
        *(name for name in sorted(entry_points(group=GROUP).names) if name not in METHODS),
    )


def flow_names() -> tuple[str, ...]:
    """Return the names of all flows."""
    return (*method_names(), *OTHERS)


def flows() -> tuple[FlowEntry, ...]:
    """Import and return all flows."""
    return tuple(find_flow(name) for name in flow_names())


@cache
def find_flow(name: str) -> FlowEntry:
    """Import and return a flow; ConfigError for an unknown name, with the nearest name and the list."""
    # Methods of this repository first: a package cannot replace one by an entry point of its name.
    if name in METHODS:
        return cast(FlowEntry, import_module(f"flows.methods.{name}").METHOD)
    if name in OTHERS:
        return cast(FlowEntry, import_module(f"flows.{name}").ENTRY)
    if name in method_names():
        (point,) = entry_points(group=GROUP, name=name)
        return cast(FlowEntry, point.load())
    hint = nearest(name, flow_names())
    raise ConfigError(f"Unknown flow '{name}'.{hint} Flows: {', '.join(flow_names())}")


def find_method(name: str) -> Method:
    """Import and return a method; ConfigError for an unknown name."""
    # Those of this repository first: the names of others are read from the files of all installed packages.
    if name not in METHODS and name not in method_names():
        raise ConfigError(f"Unknown method '{name}'. Methods: {', '.join(method_names())}")
    return cast(Method, find_flow(name))
