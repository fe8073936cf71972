"""What plan, report and summary of a federated run tell: who takes part, what holds when some collude."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from connectors.interfaces.base import ArtifactRef
from flows.engine.federation import (Federation, federation_of)
from flows.config.base import AnyConfig
from tasks.accounting.votes import Noise
from tasks.accounting.federated import guarantees
from tasks.federation.traffic import totals
from tasks.accounting.no_noise import finite

if TYPE_CHECKING:
    from flows.engine.run import Run

COORDINATES = 4
"""Bytes of one masked count."""


def parties_planned(config: AnyConfig, noise: Noise) -> dict[str, Any] | None:
    """Return what a plan says of the parties; None where there are none."""
    federation = federation_of(config)
    if federation is None:
        return None
    return _about(federation, noise) | {
        "minutes": federation.choice.minutes,
        "embeddings": federation.choice.embeddings,
        "bytes_up_first_round": COORDINATES * config.method.candidates * noise.privacy.sides,
        "histograms": noise.privacy.sides,
    }


def parties_happened(run: Run, releases: Sequence[ArtifactRef]) -> dict[str, Any] | None:
    """Return what a report says of the parties and their rounds; None where there are none."""
    federation = run.prepared.federation
    if federation is None:
        return None
    found = [(iteration, run.tools.artifacts.info(ref)) for iteration, ref in enumerate(releases)]
    rounds = [
        {
            "iteration": iteration,
            "attempt": info.get("attempt", 0) + 1,
            "parties": len(info.get("parties", ())),
            "dropped": dict(info.get("dropped", {})),
            "bytes": totals(info.get("bytes", {})),
            "of_one": info.get("bytes", {}).get("kinds", {}),
            "read_back": bool(info.get("read_back")),
        }
        for iteration, info in found
    ]
    return _about(federation, run.prepared.noise) | {"rounds": rounds}


def traffic_of(run: Run, releases: Sequence[ArtifactRef], iteration: int) -> dict[str, int]:
    """Return the bytes of all parties in the vote of an iteration, by way; empty where none travelled."""
    if run.prepared.federation is None or len(releases) <= iteration:
        return {}
    info = run.tools.artifacts.info(releases[iteration])
    return {} if info.get("read_back") else totals(info.get("bytes", {}))


def _about(federation: Federation, noise: Noise) -> dict[str, Any]:
    shared, parties = federation.shared(noise), federation.parties
    return {
        "names": list(federation.registry),
        "number": parties.number,
        "minimum": parties.minimum,
        "colluding": parties.colluding,
        "share": shared.share_int / noise.scale,
        "guarantees": [
            {"colluding": one.colluding, "epsilon": finite(one.epsilon), "promised": one.promised}
            for one in (guarantees(shared) if noise.releases else ())
        ],
    }
