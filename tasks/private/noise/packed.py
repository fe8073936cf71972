"""How the noisy integers of a release lie in the ledger: one byte string, the same on every machine, with its hash."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.errors import ArtifactError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

HEAD: Final = struct.Struct("<8sBB")
FORMAT: Final = 1


def pack(magic: bytes, numbers: Sequence[float], arrays: Sequence[Ints]) -> bytes:
    """Return bytes for some numbers and flat int64 arrays; `magic`, 8 bytes, says what they are."""
    body = HEAD.pack(magic, FORMAT, len(numbers)) + struct.pack(f"<{len(numbers)}d", *numbers)
    body += struct.pack(f"<q{len(arrays)}q", len(arrays), *map(len, arrays))
    body += b"".join(array.astype("<i8").tobytes() for array in arrays)
    return body + hashlib.sha256(body).digest()


def unpack(magic: bytes, stored: bytes) -> tuple[tuple[float, ...], list[Ints]]:
    """Read back what `pack` gave; ArtifactError when it is something else or damaged."""
    body, digest = stored[:-32], stored[-32:]
    if len(body) < HEAD.size or hashlib.sha256(body).digest() != digest:
        raise ArtifactError("The stored output of a release is damaged; restore the ledger from its backup.")
    found, form, count = HEAD.unpack_from(body)
    if found != magic or form != FORMAT:
        raise ArtifactError(f"The stored output is no {magic.decode()} of format {FORMAT}; a newer version wrote it.")
    place = HEAD.size
    numbers = struct.unpack_from(f"<{count}d", body, place)
    place += 8 * count
    (many,) = struct.unpack_from("<q", body, place)
    lengths = struct.unpack_from(f"<{many}q", body, place + 8)
    flat = np.frombuffer(body, dtype="<i8", offset=place + 8 * (1 + many)).astype(np.int64)
    return numbers, np.split(flat, np.cumsum(lengths)[:-1])
