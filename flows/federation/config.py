"""Configuration file of a party (party.yaml): rows, cap, registry and exchange."""

from __future__ import annotations

from pydantic import Field

from flows.config.form import Strict
from flows.config.models import EmbedderChoice
from flows.config.privacy import Delta, Epsilon
from flows.config.rows import PrivateRows


class PartyCap(Strict):
    """Maximum privacy loss of this party's rows over all runs."""

    epsilon: Epsilon = Field(description="Maximum total epsilon of all runs; 'inf' also allows runs without noise.")
    delta: Delta = Field(1e-5, description="Delta at which epsilon is computed.")
    protects: str = Field("record", pattern="^(record|person)$", description="Protected unit: one row or one person.")


class PartyConfig(Strict):
    """A party. Relative paths start in the folder of the file; only the name leaves the party."""

    name: str = Field(min_length=1, description="Name in the registry of parties.")
    private: PrivateRows = Field(description="The party's rows; opened by this party alone.")
    cap: PartyCap = Field(description="Maximum privacy loss of all runs; the party refuses runs that would exceed it.")
    registry: str = Field(description="File of all parties' public keys, identical to the coordinator's.")
    exchange: str = Field(description="Message exchange: a shared folder, s3://BUCKET/PREFIX, gs:// or abfs://.")
    api: str | None = Field(None, description="Address of the coordinator's Prefect server; empty: PREFECT_API_URL.")
    certificate: str | None = Field(
        None, description="Certificate file for verifying the server; empty: certificates of the system."
    )
    embedder: EmbedderChoice = Field(EmbedderChoice(), description="The same model as the coordinator's.")
    home: str = Field(
        "state", description="Folder of this party's state: privacy ledger, keys and vectors of its rows."
    )
    colluding: int = Field(
        1, ge=0, description="Minimum number of colluding parties a run must tolerate; other runs are refused."
    )
    minimum: int = Field(2, ge=2, description="Minimum number of parties in a sum; runs with fewer are refused.")
    epsilon_at_most: Epsilon | None = Field(
        None, description="Maximum epsilon of one run, at the delta of the cap. Empty: only the cap limits it."
    )
    declared_rows: int = Field(
        10_000,
        ge=1,
        le=2**31,
        description="Public upper bound of the number of rows, rounded up; the coordinator may learn it. Larger counts "
        "of votes are cut to it.",
    )
    labels: list[str] | None = Field(
        None,
        min_length=1,
        description="Classes that this party votes on; runs with others are refused. Rows of other classes vote for no "
        "text. Empty: the classes of each run.",
    )
    poll_seconds: float = Field(2.0, gt=0, le=600, description="Seconds between two polls for work.")
