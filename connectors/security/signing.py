"""Ed25519 signatures of bundles: anyone can verify, only the key's owner can sign."""

import base64
import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.security.record_hashes import open_key_file

LINE = "ed25519:"
"""Prefix of a public key in a registry of parties."""


def open_signing_key(folder: Path, name: str = "signing") -> bytes:
    """Return the private key (32 bytes) of `private/NAME.key`, created on first use (see `open_key_file`)."""
    return open_key_file(folder / "private" / f"{name}.key", "Or remove it to sign with a new key.")


def public_pem(secret: bytes) -> bytes:
    """Return the public key as PEM, readable by `openssl`."""
    return _pem(Ed25519PrivateKey.from_private_bytes(secret).public_key())


def public_line(secret: bytes) -> str:
    """Return the public key in registry format: ed25519: and the key in base64."""
    return LINE + base64.b64encode(_public(public_pem(secret)).public_bytes_raw()).decode()


def pem_of_line(line: str) -> bytes | None:
    """Return the key of a `public_line` as PEM, None for anything else."""
    if not line.startswith(LINE):
        return None
    try:
        raw = base64.b64decode(line.removeprefix(LINE), validate=True)
        return _pem(Ed25519PublicKey.from_public_bytes(raw))
    except ValueError:
        return None


def key_fingerprint(pem: bytes) -> str:
    """Return the fingerprint of a public key: its SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(_public(pem).public_bytes_raw()).hexdigest()


def sign(secret: bytes, content: bytes) -> bytes:
    """Return the signature of `content`, 64 bytes (RFC 8032)."""
    return Ed25519PrivateKey.from_private_bytes(secret).sign(content)


def is_signed(pem: bytes, content: bytes, signature: bytes) -> bool:
    """Return True if `signature` signs `content` with the key `pem`.

    ArtifactError if `pem` is not an Ed25519 key.
    """
    try:
        _public(pem).verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _pem(public: Ed25519PublicKey) -> bytes:
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _public(pem: bytes) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ArtifactError(
            "The public key is not an Ed25519 key in PEM. Request the bundle again from the sender."
        )
    return key


def read_public(path: Path) -> bytes:
    """Return the public key of a file; ConfigError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: the public key cannot be read ({error.strerror})") from None


def own_public(folder: Path) -> bytes | None:
    """Return the public key of a state folder, None if it has no key yet."""
    path = folder / "private" / "signing.key"
    if not path.exists():  # opening it would create one
        return None
    return public_pem(open_signing_key(folder))
