"""Define `wasp party`, `wasp party-keys`, `wasp party-leave` and `wasp coordinator-key`."""

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
    """Start a worker that votes with this party's rows until interrupted."""
    from flows.runtime.state_folder import ended_in_order

    member = _open_party(config)
    from flows.federation.worker import serve_party

    print(f"party {member.config.name}: waiting for rounds. Stop with Ctrl+C.", file=sys.stderr)
    with ended_in_order():
        try:
            serve_party(member)
        except KeyboardInterrupt:
            print(f"party {member.config.name}: stopped", file=sys.stderr)


def party_keys(config: Config, json_: Json = False) -> None:
    """Print the party's registry line; create its long-term key if missing."""
    from flows.federation.party import load_party

    member = load_party(config)
    line = member.public_line
    answer({"party": member.config.name, "line": line}, json_, lambda value: str(value["line"]))


def coordinator_key(
    registry: Annotated[Path | None, typer.Option(help="Registry of the parties that gets the line.")] = None,
    json_: Json = False,
) -> None:
    """Print the coordinator's registry line; create its key if missing."""
    from connectors.interfaces.federation import COORDINATOR
    from connectors.security.signing import open_signing_key, public_line
    from flows.engine.federation import register_coordinator
    from flows.runtime.state_folder import COORDINATOR_KEY, state_folder

    secret = open_signing_key(state_folder(), COORDINATOR_KEY)
    line = f"{COORDINATOR}: {public_line(secret)}" if registry is None else register_coordinator(registry, secret)
    answer({"registry": str(registry or ""), "line": line}, json_, lambda value: str(value["line"]))


def party_leave(config: Config, json_: Json = False) -> None:
    """Remove the party from the coordinator's server; keep its rows and ledger."""
    member = _open_party(config)
    from flows.federation.worker import leave

    answer(
        leave(member),
        json_,
        lambda value: f"{value['party']}: removed work pool {value['pool']}. Remove its line from the registry.",
    )


def look_at(config: Path) -> dict[str, Any]:
    """Check a party: its file, key, registry, rows, cap, exchange and server."""
    member = _open_party(config)
    from flows.cli.doctor import examine_party

    return examine_party(member)


def _open_party(config: Path) -> Party:
    from flows.federation.party import party_at_home

    return party_at_home(config)
