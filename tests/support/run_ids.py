"""Ids of the shipped configurations without their data: what their digests contain, data and model files aside.

`python tests/support/run_ids.py CHECKOUT FILE` writes them, and each configuration as a manifest contains it, for a
checkout of any version, with its packages on PYTHONPATH (CHECKOUT and CHECKOUT/flows/api).
"""

import json
import lzma
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml


def shipped(root: Path) -> list[str]:
    """Return the names of all configurations below a folder, and of the settings in their files."""
    names = []
    for file in sorted(root.rglob("*.yaml")):
        values, name = (
            yaml.safe_load(file.read_text(encoding="utf-8")),
            file.relative_to(root).with_suffix("").as_posix(),
        )
        is_group = (
            isinstance(values, dict)
            and "settings" in values
            and set(values) <= {"settings", "shared"}
        )
        names += [f"{name}#{setting}" for setting in values["settings"]] if is_group else [name]
    return names


def stand_in(config: Any) -> Any:
    """Return tools of a configuration whose models and rows are not opened."""
    return SimpleNamespace(
        config=config,
        model=lambda name: SimpleNamespace(identity=f"identity of {name}"),
        embedder=SimpleNamespace(identity="identity of the embedder"),
        artifacts=SimpleNamespace(read_text=lambda path: None),
        rows_name="",
    )


def id_of(config: Any) -> str:
    """Return the digest of a configuration in an id, by the functions of the installed version."""
    from flows.engine import prepare

    config = config.without_rows()
    if hasattr(prepare, "RunParts"):
        card = prepare.load_task(config.task)
        name, _ = prepare._name(stand_in(config), config.flow_name, card, None, [], None)
    else:
        name = prepare._name(
            stand_in(config), config.flow_name, prepare.load_task(config.task), None, []
        )
    return str(name.run_id)


def configurations(checkout: Path) -> dict[str, dict[str, Any]]:
    """Return flow, configuration and id of each shipped configuration of a run."""
    from connectors.interfaces.errors import ConfigError
    from flows.catalog import find_flow, flow_names, method_names
    from flows.config.files import load_config

    try:
        from flows.config.extends import flow_and_file
    except ImportError:  # in earlier versions
        from flows.config.named import flow_and_file
    result = {}
    for name in shipped(checkout / "deployments/configs"):
        try:
            flow, file = flow_and_file(name, None, flow_names())
            if flow not in method_names():
                continue
            config = load_config(find_flow(flow).config, file)
            result[name] = {
                "flow": flow,
                "config": config.model_dump(mode="json"),
                "id": id_of(config),
            }
        except ConfigError:
            continue  # a base, which is no run
    return result


if __name__ == "__main__":
    checkout = Path(sys.argv[1]).resolve()
    text = json.dumps(configurations(checkout), sort_keys=True).replace(
        str(checkout.parent), "/srv"
    )
    Path(sys.argv[2]).write_bytes(lzma.compress(text.encode()))
