"""Byte format of the noisy integers of a release in the ledger: the same on every machine, with a hash."""

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
    """Serialise numbers and flat int64 arrays; `magic` (8 bytes) names the type."""
    body = HEAD.pack(magic, FORMAT, len(numbers)) + struct.pack(f"<{len(numbers)}d", *numbers)
    body += struct.pack(f"<q{len(arrays)}q", len(arrays), *map(len, arrays))
    body += b"".join(array.astype("<i8").tobytes() for array in arrays)
    return body + hashlib.sha256(body).digest()


def unpack(magic: bytes, stored: bytes) -> tuple[tuple[float, ...], list[Ints]]:
    """Restore the contents of `pack`; ArtifactError if damaged or another type."""
    body, digest = stored[:-32], stored[-32:]
    if len(body) < HEAD.size or hashlib.sha256(body).digest() != digest:
        raise ArtifactError("The stored output of a release is damaged; restore the ledger from its backup.")
    stored_magic, form, count = HEAD.unpack_from(body)
    if stored_magic != magic or form != FORMAT:
        raise ArtifactError(
            f"The stored output is not {magic.decode()} of format {FORMAT}; a newer version wrote it. Update wasp."
        )
    offset = HEAD.size
    numbers = struct.unpack_from(f"<{count}d", body, offset)
    offset += 8 * count
    (arrays,) = struct.unpack_from("<q", body, offset)
    lengths = struct.unpack_from(f"<{arrays}q", body, offset + 8)
    flat = np.frombuffer(body, dtype="<i8", offset=offset + 8 * (1 + arrays)).astype(np.int64)
    return numbers, np.split(flat, np.cumsum(lengths)[:-1])
