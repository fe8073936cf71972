"""Synthetic texts as parties get them to vote on: ids, classes and embeddings in one message of few bytes.

Nothing private goes this way. What parties read is what everybody votes on, so the coordinator uses `seen` of the same
form. Measured on texts that ship: 420 rows vote for 1,200 texts, MiniLM (384 numbers each), near and far, Q = 8
(`python -m tests.benchmarks --only wire`). Total variation is between the histograms without noise.

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
"""How a number of an embedding travels."""

FORMS: Final = ("float32", "float16", "int8")
MAGIC: Final = b"WASPSENT"
HEADER: Final = struct.Struct("<8sBBxxIII")
VERSION: Final = 1
STEPS: Final = 127
"""Steps of an 8-bit number on either side of zero; a row's largest component is as many of them."""


def packed(standing: Candidates, form: Form) -> bytes:
    """Return candidates as one message, the same bytes for equal candidates on every machine.

    float32 is exact. float16 rounds each number to 11 bits. int8 sends each row's largest component over 127 as
    float32 and every component as a whole number of those steps. InputError for ids from 2^32, for vectors that
    16 bits cannot hold, and for an unknown form.
    """
    if len(standing.ids) and standing.ids.max() >= 2**32:
        raise InputError(f"Candidate id {standing.ids.max()} does not fit 32 bits; number the texts from 0.")
    names = sorted({str(label) for label in standing.labels})
    places = np.array([names.index(str(label)) for label in standing.labels], dtype="<u2")
    words = canonical(names).encode()
    rows, dimension = standing.vectors.shape
    head = HEADER.pack(MAGIC, VERSION, _number(form), rows, dimension, len(words))
    parts = (standing.ids.astype("<u4"), places, *_sent(standing.vectors, form))
    body = head + words + b"".join(part.tobytes() for part in parts)
    return body + hashlib.sha256(body).digest()


def unpacked(message: bytes) -> Candidates:
    """Read what `packed` made; ArtifactError when a byte of it was lost or changed, or another version wrote it."""
    body, told = message[:-32], message[-32:]
    if len(body) < HEADER.size or hashlib.sha256(body).digest() != told:
        raise ArtifactError("The candidates of a round were damaged on their way; ask for the round again.")
    magic, version, form, rows, dimension, width = HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION or form >= len(FORMS):
        raise ArtifactError(f"The message is no round of version {VERSION}; use one version on all machines.")
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
    """Takes a message apart from the front."""

    def __init__(self, body: bytes, place: int) -> None:
        self.body, self.place = body, place

    def take(self, length: int) -> bytes:
        self.place += length
        return self.body[self.place - length : self.place]

    def array(self, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self.take(np.dtype(kind).itemsize * count), dtype=kind)


def _number(form: Form) -> int:
    if form not in FORMS:
        raise InputError(f"Embeddings are sent as {', '.join(FORMS)}, not as {form!r}.")
    return FORMS.index(form)


def _sent(vectors: Vectors, form: Form) -> tuple[NDArray[Any], ...]:
    """Return the arrays that stand for vectors in a message."""
    if _number(form) == 0:
        return (vectors.astype("<f4"),)
    if form == "float16":
        if np.abs(vectors).max(initial=0) > np.finfo(np.float16).max:
            raise InputError("A component of an embedding is too large for float16; send int8 or float32.")
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
