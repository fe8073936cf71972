"""Messages with the synthetic texts that parties vote on, in few bytes.

They contain ids, classes and embeddings. The messages contain no private data. All parties must vote on the same
numbers, hence the coordinator uses `seen` of the same form. Measured on shipped texts: 420 rows vote for 1,200 texts,
MiniLM (384 numbers each), near and far, Q = 8. Total variation is between
the histograms without noise.

| form    | bytes     | votes for another text: near | far   | first | total variation |
| ------- | --------- | ---------------------------- | ----- | ----- | --------------- |
| float32 | 1,850,560 | 0                            | 0     | 0     | 0               |
| float16 | 928,960   | 0.4 %                        | 0.1 % | 0     | 0.03 %          |
| int8    | 472,960   | 5.0 %                        | 8.0 % | 0.7 % | 0.9 %           |
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, InputError
from tasks.private.voting.ballot import Candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Form = Literal["float32", "float16", "int8"]
"""Number format of an embedding in a message."""

FORMS: Final = ("float32", "float16", "int8")
MAGIC: Final = b"WASPSENT"
HEADER: Final = struct.Struct("<8sBBxxIII")
VERSION: Final = 1
STEPS: Final = 127
"""Steps of an 8-bit number on either side of zero; a row's largest component has this many steps."""


def packed(candidates: Candidates, form: Form) -> bytes:
    """Return candidates as one message.

    Equal candidates give the same bytes on every machine. float32 is exact. float16 rounds each number to 11 bits. int8
    sends each row's largest component over 127 as float32 and every component as a whole number of those steps.
    InputError for ids from 2^32, for vectors that 16 bits cannot represent, and for an unknown form.
    """
    if len(candidates.ids) and candidates.ids.max() >= 2**32:
        raise InputError(f"Candidate id {candidates.ids.max()} does not fit 32 bits. Number the texts from 0.")
    names = sorted({str(label) for label in candidates.labels})
    classes = np.array([names.index(str(label)) for label in candidates.labels], dtype="<u2")
    names_json = canonical(names).encode()
    rows, dimension = candidates.vectors.shape
    head = HEADER.pack(MAGIC, VERSION, _number(form), rows, dimension, len(names_json))
    parts = (candidates.ids.astype("<u4"), classes, *_sent(candidates.vectors, form))
    body = head + names_json + b"".join(part.tobytes() for part in parts)
    return body + hashlib.sha256(body).digest()


def unpacked(message: bytes) -> Candidates:
    """Read the output of `packed`.

    Raises ArtifactError when a byte was lost or changed, or for another version.
    """
    body, expected = message[:-32], message[-32:]
    if len(body) < HEADER.size or hashlib.sha256(body).digest() != expected:
        raise ArtifactError("The candidates of a round were damaged in transit. Request the round again.")
    magic, version, form, rows, dimension, width = HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION or form >= len(FORMS):
        raise ArtifactError(f"The message does not have version {VERSION}. Install one version on all machines.")
    reader = _Reader(body, HEADER.size)
    names = np.array(json.loads(reader.take(width)), dtype=object)
    ids = reader.array("<u4", rows).astype(np.int64)
    labels = names[reader.array("<u2", rows)]
    vectors = _read(reader, FORMS[form], (rows, dimension))
    return Candidates(ids, labels, vectors)


def seen(vectors: Vectors, form: Form) -> Vectors:
    """Return vectors as they arrive when they are sent in `form`, float32 (n, d)."""
    sent = b"".join(part.tobytes() for part in _sent(vectors, form))
    return _read(_Reader(sent, 0), form, vectors.shape)


class _Reader:
    """Reads a message from its start."""

    def __init__(self, body: bytes, position: int) -> None:
        self.body, self.position = body, position

    def take(self, length: int) -> bytes:
        self.position += length
        return self.body[self.position - length : self.position]

    def array(self, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self.take(np.dtype(kind).itemsize * count), dtype=kind)


def _number(form: Form) -> int:
    if form not in FORMS:
        raise InputError(f"Embeddings are sent as {', '.join(FORMS)}, not as {form!r}.")
    return FORMS.index(form)


def _sent(vectors: Vectors, form: Form) -> tuple[NDArray[Any], ...]:
    """Return the arrays that encode vectors in a message."""
    if _number(form) == 0:
        return (vectors.astype("<f4"),)
    if form == "float16":
        if np.abs(vectors).max(initial=0) > np.finfo(np.float16).max:
            raise InputError("A component of an embedding is too large for float16. Send int8 or float32.")
        return (vectors.astype("<f2"),)
    steps = np.abs(vectors).max(axis=1, initial=0) / np.float32(STEPS)
    divisor = np.where(steps > 0, steps, np.float32(1))[:, None]
    counts = np.clip(np.rint(vectors / divisor), -STEPS, STEPS)
    return steps.astype("<f4"), counts.astype("i1")


def _read(reader: _Reader, form: str, shape: tuple[int, ...]) -> Vectors:
    rows, dimension = shape
    if form == "int8":
        steps = reader.array("<f4", rows).astype(np.float32)
        return reader.array("i1", rows * dimension).reshape(shape).astype(np.float32) * steps[:, None]
    kind = {"float32": "<f4", "float16": "<f2"}[form]
    return reader.array(kind, rows * dimension).reshape(shape).astype(np.float32)
