"""Keyed hashes of private records: the ledger recognises content without being able to show it.

An unkeyed hash of a private text can be confirmed by anybody who guesses the text. These are HMAC-SHA-256 under a
key that stays in the private zone, so they say nothing to a reader who has only the budget book.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import tempfile
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from connectors.artifacts.atomic_files import sync_folder
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import LedgerError

KEY_BYTES = 32


def open_secret(folder: Path) -> bytes:
    """Return the ledger's key (32 bytes) from `private/ledger.key` below `folder`, made on first use.

    The file is created whole or not at all, with mode 0600; of several processes that start together one key wins.
    Raises LedgerError when the file is readable by others, has another length or cannot be read or made.
    """
    path = folder / "private" / "ledger.key"
    try:
        if not path.exists():
            create_key(path)
    except OSError as error:
        raise _closed(path, error) from None
    return read_secret(path)


def read_secret(path: Path) -> bytes:
    """Return the key (32 bytes) of a file that several machines have; it is never made here.

    Raises LedgerError as `open_secret`, and when there is no such file: a new key would recognise no dataset.
    """
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise LedgerError(f"The ledger's key {path} is open to other users. Type: chmod 600 {path}")
        secret = path.read_bytes()
    except FileNotFoundError:
        raise LedgerError(
            f"There is no key file {path}. Copy the one that the budget book was begun with (private/ledger.key in the "
            f"state folder of that machine), or, for a book that is empty, make one: head -c {KEY_BYTES} /dev/urandom "
            f"> {path}; chmod 600 {path}"
        ) from None
    except OSError as error:
        raise _closed(path, error) from None
    if len(secret) != KEY_BYTES:
        raise LedgerError(
            f"The ledger's key {path} has {len(secret)} bytes instead of {KEY_BYTES}. Restore it from the backup: "
            "with another key no dataset would be recognised."
        )
    return secret


def _closed(path: Path, error: OSError) -> LedgerError:
    reason = f"The ledger's key {path} cannot be opened ({error.strerror})."
    return LedgerError(f"{reason} Check the owner and mode of its folder.")


def create_key(path: Path) -> None:
    """Write fresh 32 bytes to `path`, mode 0600, whole or not at all; a key that is there already stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link refuses to replace: whoever comes second keeps the key of the first.
            os.link(name, path)
        except FileExistsError:
            return
        sync_folder(path.parent)
    finally:
        Path(name).unlink()


def record_hash(secret: bytes, label: str, text: str, person: str | None = None) -> str:
    """Return the keyed hash of one record, 64 hexadecimal digits.

    Unicode is brought to NFC and white space collapsed first, so that a copy through another editor or file format is
    recognised. Pass `person` always or never for one dataset: with it, the same text is another record.
    """
    record = [_normal(label), _normal(text), None if person is None else _normal(person)]
    return _keyed(secret, "record", canonical(record))


def dataset_fingerprint(secret: bytes, records: Iterable[str]) -> str:
    """Return the keyed hash of a multiset of record hashes, independent of their order and of any file."""
    return _keyed(secret, "dataset", "\n".join(sorted(records)))


def key_name(secret: bytes) -> str:
    """Return what a key is recognised by, 16 hexadecimal digits that do not give it away."""
    return _keyed(secret, "key", "")[:16]


def choice_key(secret: bytes) -> bytes:
    """Return the key, 32 bytes, that decides which rows of a person with too many of them are kept."""
    return bytes.fromhex(_keyed(secret, "choice", ""))


def _normal(value: str) -> str:
    return " ".join(unicodedata.normalize("NFC", value).split())


def _keyed(secret: bytes, purpose: str, message: str) -> str:
    # surrogatepass: a broken character in a private text must not become an error about it.
    content = f"wasp {purpose} 1\n{message}".encode("utf-8", "surrogatepass")
    return hmac.new(secret, content, hashlib.sha256).hexdigest()
