"""Keyed hashes that let the ledger recognise private records without storing them.

Anyone who guesses a private text can confirm its unkeyed hash. These hashes are HMAC-SHA-256 under a key that stays in
the private zone, so the ledger alone reveals nothing about the records.
"""

import hashlib
import hmac
import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from connectors.artifacts.atomic_files import locked, write_whole
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.text_forms import normalizable

KEY_BYTES = 32


def open_secret(folder: Path) -> bytes:
    """Return the ledger's key (32 bytes), `private/ledger.key`, created on first use (see `open_key_file`)."""
    return open_key_file(
        folder / "private" / "ledger.key", "Another key would recognise no dataset."
    )


def open_key_file(path: Path, loss: str) -> bytes:
    """Return the key (32 bytes) of a file, created on first use.

    The file is created atomically with mode 0600; if several processes start together, they share one key. Raises
    LedgerError if other users can read the file, its length is wrong (`loss`: the effect of another key), or it cannot
    be read or created.
    """
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(path.parent):
                if not path.exists():  # else a faster process created it
                    write_whole(path, lambda file: file.write(os.urandom(KEY_BYTES)), private=True)
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise LedgerError(f"The key {path} is open to other users. Run: chmod 600 {path}")
        secret = path.read_bytes()
    except OSError as error:
        problem = f"The key {path} cannot be opened ({error.strerror})."
        raise LedgerError(f"{problem} Check the owner and mode of its folder.") from None
    if len(secret) != KEY_BYTES:
        raise LedgerError(
            f"The key {path} has {len(secret)} bytes instead of {KEY_BYTES}. Restore it from the backup. {loss}"
        )
    return secret


def record_hash(secret: bytes, label: str, text: str, person: str | None = None) -> str:
    """Return the keyed hash of one record, 64 hexadecimal digits.

    Unicode is normalised to NFC and white space collapsed, so copies through other editors or file formats have the
    same hash. Pass `person` always or never for one dataset: it changes the hash.
    """
    # JSON and not one joined text: the ends of its parts are part of what is hashed.
    record = [_normal(label), _normal(text), person]
    if person is not None:
        record[2] = _normal(person)
    return _keyed(secret, "record", canonical(record))


def dataset_fingerprint(secret: bytes, records: Iterable[str]) -> str:
    """Return the keyed hash of a multiset of record hashes, independent of order."""
    return _keyed(secret, "dataset", "\n".join(sorted(records)))


def mark_hash(secret: bytes, kind: str, value: str) -> str:
    """Return the keyed hash of a mark: a person, a place or a whole row (`connectors.interfaces.ledger.Marks`)."""
    return _keyed(secret, f"mark {kind}", value)


def key_name(secret: bytes) -> str:
    """Return the public name of a key, 16 hexadecimal digits that do not reveal it."""
    return _keyed(secret, "key", "")[:16]


def choice_key(secret: bytes) -> bytes:
    """Return the key (32 bytes) that selects the rows of a person with too many rows."""
    return bytes.fromhex(_keyed(secret, "choice", ""))


def _normal(value: str) -> str:
    return " ".join(unicodedata.normalize("NFC", normalizable(value)).split())


def _keyed(secret: bytes, purpose: str, message: str) -> str:
    # The purpose separates the uses of one key: no hash of a record is a mark or a name of the key.
    # surrogatepass: an error about a broken character would quote the private text.
    content = f"wasp {purpose} 1\n{message}".encode("utf-8", "surrogatepass")
    return hmac.new(secret, content, hashlib.sha256).hexdigest()
