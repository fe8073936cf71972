"""The file of one party (party.yaml): its rows, its cap, where it meets the others."""

from __future__ import annotations

from pydantic import Field

from flows.config.form import Strict
from flows.config.models import EmbedderChoice
from flows.config.privacy import Delta, Epsilon
from flows.config.rows import PrivateRows


class PartyCap(Strict):
    """What all runs together may cost this party's rows."""

    epsilon: Epsilon = Field(description="Largest epsilon of all runs together; 'inf' lets runs without noise in.")
    delta: Delta = Field(1e-5, description="At this delta.")
    protects: str = Field("record", pattern="^(record|person)$", description="Of one row, or of one person.")


class PartyConfig(Strict):
    """One party. Relative paths start in the folder of the file; nothing of it leaves the party but its name."""

    name: str = Field(min_length=1, description="Name in the registry of parties.")
    private: PrivateRows = Field(description="The party's rows; opened by this party alone.")
    cap: PartyCap = Field(description="What all runs together may cost; the party refuses what would pass it.")
    registry: str = Field(description="File of all parties' public keys, the same one that the coordinator has.")
    exchange: str = Field(description="Where messages are left: a shared folder, s3://BUCKET/PREFIX, gs://, abfs://.")
    api: str | None = Field(None, description="Address of the coordinator's Prefect server; empty: PREFECT_API_URL.")
    certificate: str | None = Field(
        None, description="File of the certificate that the server's is checked with; empty: those of the system."
    )
    embedder: EmbedderChoice = Field(EmbedderChoice(), description="The same model as the coordinator's.")
    home: str = Field("state", description="Folder of this party's state: budget book, keys, vectors of its rows.")
    colluding: int = Field(0, ge=0, description="Runs that reckon with fewer colluding parties are refused.")
    poll_seconds: float = Field(2.0, gt=0, le=600, description="Seconds between two questions for work.")
