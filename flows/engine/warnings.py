"""What a user should know before a run starts and anything is spent; made of public numbers alone."""

from __future__ import annotations

from pathlib import Path

from flows.catalog import find_method
from flows.config.base import AnyConfig, RunConfig
from flows.config.paths import rows_ref
from flows.config.rows import PrivateRows
from flows.engine.method import Releases
from flows.runtime.state_folder import open_to_others
from tasks.text.prompts import TaskCard


def warnings_of(config: AnyConfig, card: TaskCard, releases: Releases) -> list[str]:
    """Return what the user should know before the run starts; public numbers only."""
    warnings = _about_place(config.private, config) if config.private else []
    if releases.noise.non_private:
        warnings.append("privacy.epsilon is infinite: NO NOISE is added, nothing of this run may be shared")
    if config.test is None:
        warnings.append("no test rows: accuracy and FID are not measured")
    if isinstance(config, RunConfig):
        warnings += _about_privacy(config)
    warnings += find_method(config.flow_name).warnings(config, releases)
    return warnings + [warning for release in releases.items for warning in release.warnings(card)]


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
