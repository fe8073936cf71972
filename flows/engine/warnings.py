"""What a user should know before a run starts and anything is spent; made of public numbers alone."""

from __future__ import annotations

from pathlib import Path

from flows.config.base import AnyConfig, RunConfig, WaspConfig
from flows.config.rows import PrivateRows
from flows.methods.dp_kps.releases import warnings_of_keyphrases
from flows.releases.density import about_density, instead_of_votes
from flows.releases.teachers import warnings_of_parts
from flows.runtime.paths import rows_ref
from flows.runtime.state_folder import open_to_others
from tasks.accounting.density import GuidanceNoise
from tasks.accounting.votes import Noise, signal_index
from tasks.text.prompts import TaskCard


def warnings_of(config: AnyConfig, card: TaskCard, noise: Noise) -> list[str]:
    """Return what the user should know before the run starts; public numbers only."""
    found = _about_place(config.private, config) if config.private else []
    if noise.non_private:
        found.append("privacy.epsilon is infinite: NO NOISE is added, nothing of this run may be shared")
    if config.test is None:
        found.append("no test rows: accuracy and FID are not measured")
    if isinstance(config, RunConfig):
        found += warnings_of_keyphrases(noise) + warnings_of_parts(config, noise)
        found += _about_privacy(config) + _about_signal(config, card, noise)
    return found


def _about_place(private: PrivateRows, config: AnyConfig) -> list[str]:
    place = Path(rows_ref(private, config.data_root).path).expanduser()
    if not open_to_others(place):
        return []
    return [f"private.path: every user of this machine can read {place}; type chmod go-rwx {place}"]


def _about_privacy(config: RunConfig) -> list[str]:
    if config.private is None:
        return _about_parties(config)
    rows, privacy = config.private.rows, config.privacy
    found = []
    if config.private.takes_exactly and privacy.adjacency == "add_remove":
        found.append(
            "private.rows takes a fixed number of rows, so removing one lets another in: noise is sqrt(2) larger; "
            "set private.of to the rounded size of the source, or leave private.rows empty"
        )
    tuning = config.method.tuning
    if tuning is not None:
        found.append(
            f"method.declared_rows ({tuning.declared_rows}) is public: it stands in the plan, the budget book "
            "and the report; noise of DP-SGD is floating point, not the exact integer noise of votes"
        )
    if config.private.person and privacy.protects == "record":
        found.append("private.person is named, but privacy.protects is record: each row is protected for itself")
    declared = config.private.of or rows or (tuning.declared_rows if tuning is not None else None)
    if declared is not None and privacy.delta >= 1 / declared:
        found.append(
            f"privacy.delta: {privacy.delta:g} is not below 1/{declared} (one in the declared number of rows), so a "
            f"whole row may be published as it is. Write a smaller one, such as {0.1 / declared:.0e}"
        )
    return found


def _about_parties(config: RunConfig) -> list[str]:
    if config.parties is None or config.parties.colluding:
        return []
    return [
        "parties.colluding is 0: the promise holds against whoever reads the sums, not against a party that takes its "
        "own share of the noise off; 1 protects the parties from each other as well"
    ]


def _about_signal(config: RunConfig, card: TaskCard, noise: Noise) -> list[str]:
    rows = config.private.rows if config.private else None
    if rows is None or noise.sigma <= 0 or not config.method.casting.releases:
        return []
    if isinstance(noise, GuidanceNoise) and isinstance(config, WaspConfig):
        return about_density(config, rows, len(card.labels), noise)
    index = signal_index(rows, noise.sigma, config.method.candidates // len(card.labels))
    if index >= 1:
        return []
    instead = ""
    if isinstance(config, WaspConfig):
        instead = instead_of_votes(config, rows, len(card.labels), noise.privacy)
    return [
        f"signal index {index:.2f} < 1: with {rows} rows the noise is louder than the votes, so the choice of "
        f"examples is near chance; more rows, a larger epsilon or fewer iterations help{instead}"
    ]
