"""Signed messages of a federation: names in the exchange, the plan of a round, the vectors of its texts.

The exchange (a folder or a store that coordinator and parties can access) is the only state of a round: a restarted
process reads its progress there. Masked integers are the only data from private rows.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, ConfigError, PartyError
from tasks.accounting.federated import Parties, SharedNoise
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import calibrate
from tasks.private.voting.ballot import Candidates

if TYPE_CHECKING:
    from connectors.artifacts.remote_files import RemoteFiles

COORDINATOR: Final = "coordinator"
"""Name of the coordinator in the registry; no party may have it."""
ROUNDS: Final = "rounds"
"""Folder of the exchange that only the coordinator writes."""
PATH: Final = re.compile(rf"{ROUNDS}/([^/]+)/iteration=(\d+)/attempt=(\d+)/([^/]+)")
"""Path of a coordinator's file: run, iteration, attempt, name."""
SIGNATURE: Final = 64
"""Bytes of an Ed25519 signature."""

Form = Literal["float32", "float16"]
"""Number format of the vectors of texts in a message."""


class File:
    """Names of a round's files in the exchange."""

    PLAN: Final = "signed-plan"
    CALL: Final = "call-"
    """Beginning of a file by which a coordinator's process calls the parties of an attempt."""
    KEYS: Final = "keys"
    LIST: Final = "announcements.json"
    READY: Final = "ready"
    GO: Final = "go.json"
    UPLOADS: Final = "masked"
    REFUSALS: Final = "refused"
    ABORT: Final = "abort.json"
    ENDED: Final = "ended.json"


class PlanSignatureError(ConfigError):
    """The plan of a round is not signed with the coordinator's key of the registry."""


def own_folder(party: str) -> str:
    """Return the folder of the exchange that only this party writes."""
    return f"parties/{party}"


@dataclass(frozen=True, slots=True)
class RoundId:
    """One attempt of one iteration's vote."""

    run_id: str
    iteration: int
    attempt: int

    @property
    def folder(self) -> str:
        """The coordinator's folder of the round in the exchange."""
        return f"{ROUNDS}/{self.run_id}/iteration={self.iteration}/attempt={self.attempt}"

    def message(self, kind: str, party: str) -> str:
        """Return the path of a party's message in the exchange."""
        return f"{own_folder(party)}/{self.folder}/{kind}"


def rounds_with(names: Iterable[str], file: str) -> dict[RoundId, str]:
    """Return the last of the files that begin with `file`, of each round among the `names` of a coordinator's files."""
    files = [match for match in map(PATH.fullmatch, sorted(names)) if match and match[4].startswith(file)]
    return {RoundId(match[1], int(match[2]), int(match[3])): match[4] for match in files}


# --- messages
def sign_message(secret: bytes, kind: str, at: RoundId, party: str, payload: bytes = b"") -> bytes:
    """Return a message of a party: signature by its long-term Ed25519 key (32 bytes), header, payload."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    content = _header(kind, at, party) + payload
    return Ed25519PrivateKey.from_private_bytes(secret).sign(content) + content


def open_message(data: bytes, kind: str, at: RoundId, party: str, pem: bytes) -> bytes:
    """Return the payload of a message; PartyError with the party's name if the key `pem` did not sign it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content, header, key = data[SIGNATURE:], _header(kind, at, party), load_pem_public_key(pem)
    assert isinstance(key, Ed25519PublicKey)
    try:
        key.verify(data[:SIGNATURE], content)
    except InvalidSignature:
        problem = f"did not sign its message '{kind}' with its registered key. Compare the keys."
        raise PartyError(party, problem) from None
    if not content.startswith(header):
        raise PartyError(party, f"sent a message of another round or party instead of '{kind}'. It was not used.")
    return content[len(header) :]


def _header(kind: str, at: RoundId, party: str) -> bytes:
    return b"wasp message 2\n" + canonical({"kind": kind, "round": at, "party": party}).encode() + b"\n"


class RoundPlan(BaseModel):
    """The coordinator's request to the parties of one attempt, to sum `length` values.

    `parties` take part, in sorted order. `privacy` is the promise of the whole run; `number`, `minimum` and `colluding`
    define the sharing of the noise. `pieces`: hashes of the candidate texts' vectors. `registry`: digest of the
    parties' keys. `step`: key of the coordinator's release. `respend`: a party that has paid for this vote before may
    pay again.
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
    registry: str
    step: str
    respend: bool = False

    @property
    def id(self) -> RoundId:
        """The id of the round."""
        return RoundId(self.run_id, self.iteration, self.attempt)

    @property
    def digest(self) -> bytes:
        """Digest of every field, 32 bytes; keys, transcript and masks of the round depend on it."""
        return hashlib.sha256(b"wasp round plan 3\n" + self.model_dump_json().encode()).digest()

    @property
    def most(self) -> int:
        """Largest absolute value of a party: the sum of all parties, modulo 2^32, cannot wrap around."""
        return (2**31 - 1) // len(self.parties)

    @property
    def noise(self) -> SharedNoise:
        """The noise, recomputed from the promise: a party does not trust others for it."""
        return SharedNoise(calibrate(self.privacy), Parties(self.number, self.minimum, self.colluding))

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
