"""Plans and texts of rounds in the exchange: publication and lookup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.federation import ROUNDS, Exchange
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.federation.messages import (
    ABORT,
    ENDED,
    KEYS,
    LIST,
    PLAN,
    READY,
    UPLOADS,
    MessagePiece,
    PlanSignatureError,
    RoundId,
    RoundPlan,
    piece_of,
    run_folder,
)
from tasks.federation.traffic import Traffic
from tasks.federation.wire import packed
from tasks.private.voting.ballot import Candidates
from tasks.steps.federation.party import registry_digest

if TYPE_CHECKING:
    from tasks.steps.federation.vote import FederatedVote


WITHOUT: Final = "not part of the summed round"
"""Reason for a dropped party when the original reason is no longer available."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A new attempt: release key (`step`), attempt number and remaining parties."""

    step: str
    attempt: int
    parties: tuple[str, ...]


def publish(
    tools: Tools, job: FederatedVote, opening: Opening, written: Sequence[Written], texts: Candidates
) -> RoundPlan:
    """Publish plan and texts of an attempt; `texts` are the candidates of `written`."""
    noise, parties, files = job.noise.total, job.noise.parties, tools.exchange
    plan = RoundPlan(
        run_id=tools.run_id,
        iteration=job.spec.iteration,
        attempt=opening.attempt,
        parties=opening.parties,
        length=len(texts.ids) * noise.privacy.sides,
        flow=job.flow,
        privacy=noise.privacy,
        number=parties.number,
        minimum=parties.minimum,
        colluding=parties.colluding,
        labels=job.labels,
        embedder=tools.embedder.identity,
        pieces=tuple(_put(tools, job, entry, texts) for entry in written),
        minutes=job.minutes,
        registry=registry_digest(job.registry, opening.parties),
        step=opening.step,
        respend=job.spec.respend,
    )
    files.remove([f"{run_folder(plan.run_id)}/{ENDED}"])
    files.write(f"{plan.id.folder}/{PLAN}", plan.to_message(tools.coordinator_key))
    return plan


def _put(tools: Tools, job: FederatedVote, entry: Written, texts: Candidates) -> MessagePiece:
    """Publish the vectors of one table once; later rounds reuse them."""
    ids = tools.artifacts.read_table(entry.samples)["sample_id"].to_numpy()
    data = packed(texts.take(np.flatnonzero(np.isin(texts.ids, ids))), job.form)
    piece = piece_of(data)
    path = f"{run_folder(tools.run_id)}/{piece.name}"
    if not tools.exchange.exists(path):
        tools.exchange.write(path, data)
    return piece


def attempts(files: Exchange, run_id: str, iteration: int) -> int:
    """Return the number of attempts of an iteration that have a plan, valid or not."""
    plans = [name for name in files.below(RoundId(run_id, iteration, 0).iteration_folder) if name.endswith(f"/{PLAN}")]
    return max((int(name.rsplit("attempt=", 1)[1].split("/")[0]) + 1 for name in plans), default=0)


def last_plan(files: Exchange, run_id: str, iteration: int, coordinator: bytes) -> RoundPlan | None:
    """Return the plan of the last attempt of an iteration.

    None if there is none, or if the key `coordinator` did not sign it.
    """
    number = attempts(files, run_id, iteration)
    return _signed_plan(files, RoundId(run_id, iteration, number - 1), coordinator) if number else None


def _signed_plan(files: Exchange, at: RoundId, coordinator: bytes) -> RoundPlan | None:
    data = files.read(f"{at.folder}/{PLAN}")
    try:
        return None if data is None else RoundPlan.from_message(data, at, coordinator)
    except (PlanSignatureError, ArtifactError):
        return None


def fresh_pieces(files: Exchange, plan: RoundPlan, coordinator: bytes) -> list[MessagePiece]:
    """Return the pieces of a plan that the previous iteration did not publish."""
    before = last_plan(files, plan.run_id, plan.iteration - 1, coordinator) if plan.iteration else None
    published = {piece.sha256 for piece in before.pieces} if before is not None else set()
    return [piece for piece in plan.pieces if piece.sha256 not in published]


def measure_traffic(files: Exchange, plan: RoundPlan, coordinator: bytes) -> Traffic:
    """Return the traffic of each party of a round, in bytes of exchange files."""
    traffic, folder = Traffic(), plan.id.folder
    listed = len(files.read(f"{folder}/{LIST}") or b"")
    sent = len(files.read(f"{folder}/{PLAN}") or b"")
    down = {PLAN: sent, "texts": sum(piece.size for piece in fresh_pieces(files, plan, coordinator))}
    for kind in (KEYS, READY, UPLOADS):
        for party, data in read_messages(files, plan.id, kind, plan.parties).items():
            traffic.add("up", party, kind, len(data))
    for party in plan.parties:
        traffic.add("between", party, LIST, listed)
        for kind, size in down.items():
            traffic.add("down", party, kind, size)
    return traffic


def read_messages(files: Exchange, at: RoundId, kind: str, parties: Sequence[str]) -> dict[str, bytes]:
    """Return the messages of a kind by party; each party writes below its own folder only."""
    paths = {at.message(kind, party): party for party in parties}
    return {paths[name]: data for name, data in files.read_all(list(paths)).items()}


def facts(plan: RoundPlan, traffic: Traffic, dropped: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts stored with the sum of a round: parties, attempt and bytes."""
    values = {"parties": list(plan.parties), "dropped": dict(dropped), "attempt": plan.attempt}
    return values | {"bytes": traffic.to_json()}


def stored_facts(files: Exchange, job: FederatedVote, step: str) -> dict[str, Any]:
    """Return the facts of a reused sum from its original round, if it exists.

    `step`: the key of the release. Its round can belong to another run and remains in the exchange until cleanup.
    """
    for name in files.match(f"{ROUNDS}/*/iteration={job.spec.iteration}/attempt=*/{PLAN}"):
        _, run_id, _, attempt, _ = name.split("/")
        at = RoundId(run_id, job.spec.iteration, int(attempt.removeprefix("attempt=")))
        plan = _signed_plan(files, at, job.coordinator)
        if plan is not None and plan.step == step and not files.exists(f"{plan.id.folder}/{ABORT}"):
            dropped = {party: WITHOUT for party in sorted(job.registry) if party not in plan.parties}
            return facts(plan, measure_traffic(files, plan, job.coordinator), dropped) | {"read_back": True}
    return {"read_back": True}


def end_run(exchange: Exchange, run_id: str) -> None:
    """Publish that a run has ended, which makes all parties return their reservations."""
    exchange.write(f"{run_folder(run_id)}/{ENDED}", b'{"ended": true}\n')
