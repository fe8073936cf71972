"""Implement the commands of the owners of private datasets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from flows.config.datasets import DatasetView, check_name
from flows.config.files import check_config
from flows.config.paths import place
from flows.engine.datasets import notify_owner, register_view, view_of
from flows.engine.text import table
from flows.runtime.state_folder import open_to_others, state_folder, who
from flows.runtime.stores import open_ledger, open_zone

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger


def add(name: str, values: dict[str, Any], epsilon: float | None, delta: float) -> dict[str, Any]:
    """Register a dataset: check and identify its rows, set its cap and record the owner's view."""
    from flows.cli.budget_commands import check_cap

    if epsilon is not None:
        check_cap(epsilon, delta, "record", "--epsilon-cap", "--delta-cap")
    home, path = state_folder(), str(values["path"])
    values = {**values, "path": place(path, str(Path.cwd()))}
    view = check_config(DatasetView, values, f"wasp dataset add {check_name(name)}")
    ledger = open_ledger(home)
    if name in ledger.views():
        raise ConfigError(f"NAME: '{name}' is registered. Use another name, or first: wasp dataset remove {name}")
    dataset = register_view(ledger, open_zone(home), name, view)
    if epsilon is not None:
        ledger.set_cap(dataset, epsilon, delta, who(), "wasp dataset add")
    notify_owner(ledger, dataset, home)
    return show(name)


def registered() -> dict[str, Any]:
    """Return all registered datasets."""
    ledger = open_ledger(state_folder())
    return {"datasets": [_description(ledger, name) for name in sorted(ledger.views())]}


def show(name: str) -> dict[str, Any]:
    """Return view, budget and group of a registered dataset."""
    return _description(open_ledger(state_folder()), name)


def remove(name: str) -> dict[str, Any]:
    """Remove the view of a dataset; its budget stays in the ledger."""
    ledger = open_ledger(state_folder())
    view_of(ledger, name)
    ledger.set_view(name, None, who())
    return {"name": name}


def classes_of(options: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the label prefixes by class from options CLASS=PREFIX,PREFIX."""
    classes: dict[str, list[str]] = {}
    for option in options:
        name, equals, prefixes = option.partition("=")
        if not (name and equals and prefixes):
            raise ConfigError(f"--classes: '{option}' is not a class with prefixes. Write CLASS=PREFIX,PREFIX")
        classes.setdefault(name, []).extend(prefixes.split(","))
    return classes or None


def described(value: dict[str, Any]) -> str:
    """Return a dataset as text."""
    cap = "none" if value["cap"] is None else f"epsilon {value['cap']:g} at delta {value['delta']:g}"
    lines = [
        f"{value['name']}: {value['view']['path']}",
        f"cap      {cap}, spent {value['spent']:.4g}. Change it with: wasp budget cap {value['dataset']} --epsilon E",
        f"in runs  private: {value['name']}",
    ]
    if value["members"]:
        reasons = f" ({', '.join(value['reasons'])})" if value["reasons"] else ""
        lines.append(f"group    charged together with {', '.join(value['members'])}{reasons}")
    return "\n".join([*lines, *(f"warning  {warning}" for warning in value["warnings"])])


def listed(value: dict[str, Any]) -> str:
    """Return all datasets as a table."""
    rows = [
        [
            entry["name"],
            entry["view"]["path"],
            entry["view"]["person"] or "-",
            entry["view"]["declared_rows"] or "-",
            "none" if entry["cap"] is None else f"{entry['cap']:g}",
            f"{entry['spent']:.4g}",
            ", ".join(entry["members"]) or "-",
        ]
        for entry in value["datasets"]
    ]
    heads = ["name", "path", "person", "declared rows", "cap", "spent", "charged together with"]
    return table(rows, heads) if rows else "no dataset is registered"


def _description(ledger: PrivacyLedger, name: str) -> dict[str, Any]:
    view = view_of(ledger, name)
    status = ledger.status(ledger.find(name))
    path = Path(view.path).expanduser()
    is_open = [f"every user of this machine can read {path}. Run: chmod go-rwx {path}"] if open_to_others(path) else []
    return {
        "name": name,
        "dataset": status.dataset,
        "view": view.to_json(),
        "cap": status.cap,
        "delta": status.delta,
        "spent": status.spent,
        "left": status.left,
        "group": status.group,
        "members": list(status.members),
        "reasons": ledger.group_reasons(status.dataset),
        "warnings": is_open,
    }
