"""The commands of a party of a federation: `wasp party`, `wasp party-keys`, `wasp party-leave`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.common import Json, answer

if TYPE_CHECKING:
    from flows.federation.party import Party

Config = Annotated[Path, typer.Option("--config", "-c", help="The party's file (party.yaml).")]


def party(config: Config) -> None:
    """Take part in federated runs: a worker that votes with this party's rows, until it is interrupted."""
    from flows.runtime.state_folder import ended_in_order

    found = _at_home(config)
    from flows.federation.worker import serve_party

    print(f"party {found.config.name}: waiting for rounds; Ctrl+C ends it", file=sys.stderr)
    with ended_in_order():
        try:
            serve_party(found)
        except KeyboardInterrupt:
            print(f"party {found.config.name}: ended", file=sys.stderr)


def party_keys(config: Config, json_: Json = False) -> None:
    """Make the party's long-term key, if it has none, and print its line for the registry of parties."""
    from flows.federation.party import load_party

    found = load_party(config)
    line = found.public_line
    answer({"party": found.config.name, "line": line}, json_, lambda value: str(value["line"]))


def party_leave(config: Config, json_: Json = False) -> None:
    """Take the party's work pool and deployment off the coordinator's server; its rows and budget book stay."""
    found = _at_home(config)
    from flows.federation.worker import leave

    answer(
        leave(found),
        json_,
        lambda value: f"{value['party']} left: work pool {value['pool']} is gone. Take its line out of the registry.",
    )


def look_at(config: Path) -> dict[str, Any]:
    """Examine a party of a federation: its file, key, registry, rows, cap, exchange and server."""
    found = _at_home(config)
    from flows.cli.doctor import examine_party

    return examine_party(found)


def _at_home(config: Path) -> Party:
    from flows.federation.party import party_at_home

    return party_at_home(config)
