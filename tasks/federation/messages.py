"""The signed plan of a round, the vectors of texts, and the names of all messages in the exchange.

The exchange (a folder or a store that coordinator and parties can access) is the only state of a round: a restarted
process reads its progress there. Masked integers are the only data from private rows.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from connectors.interfaces.errors import ArtifactError, ConfigError, PartyError
from connectors.interfaces.federation import COORDINATOR, ROUNDS
from tasks.accounting.federated import Parties, SharedNoise, shared
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import calibrate
from tasks.federation.masked_round import File, Round, RoundId, open_message, sign_message
from tasks.private.voting.ballot import Candidates

if TYPE_CHECKING:
    from connectors.artifacts.remote_files import RemoteFiles

Form = Literal["float32", "float16"]
"""Number format of the vectors of texts in a message."""

PATIENT: Final = 20.0
LONGEST_PAUSE: Final = 3.0


class PlanSignatureError(ConfigError):
    """The plan of a round is not signed with the coordinator's key of the registry."""


class RoundPlan(BaseModel):
    """The coordinator's request to the parties of one attempt.

    `parties` take part. `privacy` is the promise of the whole run; `number`, `minimum` and `colluding` define the
    sharing of the noise. `pieces`: hashes of the candidate texts' vectors. `registry`: digest of the parties' keys.
    `step`: key of the coordinator's release. `respend`: a party that has paid for this vote before may pay again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    run_id: str
    iteration: int
    attempt: int
    parties: tuple[str, ...]
    length: int
    flow: str
    privacy: VotePrivacy
    number: int
    minimum: int
    colluding: int
    labels: tuple[str, ...]
    embedder: str
    pieces: tuple[str, ...]
    minutes: float
    registry: str
    step: str
    respend: bool = False

    @property
    def id(self) -> RoundId:
        """The id of the round."""
        return RoundId(self.run_id, self.iteration, self.attempt)

    @property
    def round(self) -> Round:
        """The round for masks."""
        return Round(self.id, self.parties, self.length, self.digest)

    @property
    def digest(self) -> str:
        """Digest of every field of the plan, 64 hexadecimal digits."""
        return hashlib.sha256(b"wasp round plan 2\n" + self.model_dump_json().encode()).hexdigest()

    @property
    def noise(self) -> SharedNoise:
        """The noise, recomputed from the promise: a party does not trust others for it."""
        return shared(calibrate(self.privacy), Parties(self.number, self.minimum, self.colluding))

    def to_message(self, secret: bytes) -> bytes:
        """Return the plan, signed with the coordinator's key (32 bytes)."""
        return sign_message(secret, File.PLAN, self.id, COORDINATOR, self.model_dump_json().encode())

    @classmethod
    def from_message(cls, data: bytes, at: RoundId, pem: bytes) -> RoundPlan:
        """Read the output of `to_message` for the round `at`.

        Raises PlanSignatureError unless the key `pem` signed it, ArtifactError if it is not readable.
        """
        try:
            plan = cls.model_validate_json(open_message(data, File.PLAN, at, COORDINATOR, pem))
        except PartyError:
            plan = None
        except ValidationError:
            raise ArtifactError(
                f"Plan of round {at.folder}: its fields are unknown. Nothing was sent. Install the same version of "
                "wasp-synth on coordinator and parties."
            ) from None
        if plan is None or plan.id != at:
            raise PlanSignatureError(
                f"Plan of round {at.folder}: the key of '{COORDINATOR}' in the registry did not sign it. Nothing was "
                "sent. Compare the registries and the writers of the exchange."
            )
        return plan


# --- texts
def pack(run_id: str, candidates: Candidates, form: Form) -> tuple[str, bytes]:
    """Return the path of candidates in the exchange, which contains their hash, and their bytes."""
    file = io.BytesIO()
    with np.errstate(over="ignore"):
        vectors = candidates.vectors.astype(form)
    if not np.isfinite(vectors).all():
        raise ConfigError("parties.embeddings: a component of a vector is too large for float16. Write float32.")
    np.savez(file, ids=candidates.ids, labels=candidates.labels.astype(str), vectors=vectors)
    data = file.getvalue()
    return f"{ROUNDS}/{run_id}/texts/{hashlib.sha256(data).hexdigest()}", data


def unpack(pieces: Sequence[str], exchange: RemoteFiles) -> Candidates:
    """Return the texts of the outputs of `pack` in the order of their ids, which is the order of the sum.

    Raises ArtifactError when bytes are missing or differ from their names in the plan.
    """
    parts: dict[str, list[np.ndarray]] = {"ids": [], "labels": [], "vectors": []}
    for piece in pieces:
        data = exchange.read(piece) or b""
        if piece.rpartition("/")[2] != hashlib.sha256(data).hexdigest():
            raise ArtifactError(f"Vectors {piece}: missing, or another process changed them. Nothing was sent.")
        arrays = np.load(io.BytesIO(data), allow_pickle=False)
        for name, part in parts.items():
            part.append(arrays[name])
    ids, labels, vectors = map(np.concatenate, parts.values())
    return Candidates(ids, labels, vectors.astype(np.float32)).take(np.argsort(ids, kind="stable"))


def wait_until(exchange: RemoteFiles, is_done: Callable[[float], bool]) -> None:
    """Wait until `is_done`, called with the seconds waited, at growing intervals of at most 3 seconds."""
    started, least = time.monotonic(), 0.2 if exchange.is_folder else 1.0
    while not is_done(waited := time.monotonic() - started):
        time.sleep(min(max(least, waited / PATIENT), LONGEST_PAUSE))
