"""The step around the release: key, ledger, artifact. What is private happens in tasks/private/release.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from connectors.base import ArtifactRef, LedgerError, StepKey, digest
from tasks.accounting import VotePrivacy, choice_steps, vote_charge
from tasks.guiding import candidates
from tasks.jobs import VoteSpec, Written
from tasks.private.release import VoteJob, release_votes
from tasks.private.votes import NoisyVotes
from tasks.reuse import step_key
from tasks.toolbox import Tools
from tasks.writing import content


def vote(tools: Tools, spec: VoteSpec, written: Sequence[Written]) -> tuple[ArtifactRef, str]:
    """Release the noisy votes for `written` once, and write them as release.parquet.

    The ledger is asked even when the file exists: a file without its entry means that the book was replaced, and
    drawing again would spend what nobody counts.
    """
    path = f"runs/{tools.run_id}/iteration={spec.iteration}/release.parquet"
    key = _key(tools, spec, written)
    why = tools.artifacts.why(path, key)
    found = tools.artifacts.find(path, key)
    if found is not None:
        if not tools.ledger.released(spec.dataset, key.key):
            raise LedgerError(
                f"{path} is a finished release, but the budget book of dataset '{spec.dataset}' does not know it: the "
                "book was lost or replaced. Restore it from a backup; nothing was drawn."
            )
        return replace(found, reused=True), why
    release = release_votes(tools, _job(spec, key), candidates(tools, written))
    votes, table = NoisyVotes.from_bytes(release.output), table_of(release.output)
    info: dict[str, Any] = {"scale": votes.scale, "sigma_int": votes.sigma_int, "ledger_entry": release.entry_hash}
    if votes.choices is not None:
        info["choices"] = votes.choices.tolist()
    ref = tools.artifacts.write_table(path, table, key, info)
    if release.reused:
        return replace(ref, reused=True), "reused because the budget book holds this release: no noise drawn, no charge"
    return ref, why


def table_of(output: bytes) -> pd.DataFrame:
    """Return the table (release.parquet) of what a vote gave out."""
    votes = NoisyVotes.from_bytes(output)
    return pd.DataFrame(votes.columns())


def _key(tools: Tools, spec: VoteSpec, written: Sequence[Written]) -> StepKey:
    noise = spec.noise
    parameters = {
        "event": noise.event,
        "sigma_int": noise.sigma_int,
        "scale": noise.scale,
        "votes": noise.privacy.votes,
        "sides": noise.privacy.sides,
        "adjacency": noise.privacy.adjacency,
        **persons_of(noise.privacy),
        **({"choices": choice_steps(noise.privacy), "plms": list(tools.plms)} if noise.privacy.choice_share else {}),
        "scope": spec.scope,
        "private": spec.fingerprint,
        "embedder": tools.embedder.identity,
        "rows": [tools.private.where.rows, tools.private.where.of, tools.private.where.seed],
    }
    inputs = {"candidates": content([one.samples for one in written])}
    stands_on = [one.stands_on for one in written]
    if any(stands_on):
        inputs["stands on"] = digest(stands_on)
    return step_key("vote", parameters, inputs)


def persons_of(privacy: VotePrivacy) -> dict[str, Any]:
    """Return what a vote's key says about persons; nothing where records are protected."""
    if privacy.protects == "record":
        return {}
    return {"rows_per_person": privacy.rows_per_person, "aggregation": privacy.aggregation}


def _job(spec: VoteSpec, key: StepKey) -> VoteJob:
    return VoteJob(
        iteration=spec.iteration,
        dataset=spec.dataset,
        fingerprint=spec.fingerprint,
        step_key=key.key,
        noise=spec.noise,
        charge=vote_charge(spec.noise),
        incremental=spec.scope == "all",
        respend=spec.respend,
    )
