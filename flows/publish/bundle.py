"""The seal of a bundle: a manifest with the hash of every file, signed; and the check of one that was received."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.security.signing import is_signed, key_fingerprint, own_public, public_pem, read_public, sign

MANIFEST, SIGNATURE, PUBLIC_KEY = "manifest.json", "manifest.sig", "public_key.pem"
FORMAT = "wasp bundle 1"


def seal(folder: Path, secret: bytes, told: Mapping[str, Any]) -> str:
    """Write public key, manifest and signature into a bundle; return the mark of the key.

    `told`: what the manifest says beside the hashes. manifest.sig is the Ed25519 signature of manifest.json, base64.
    """
    pem = public_pem(secret)
    (folder / PUBLIC_KEY).write_bytes(pem)
    files = {
        name: {"sha256": file_sha256(folder / name), "bytes": (folder / name).stat().st_size} for name in _files(folder)
    }
    values = {"format": FORMAT, **told, "signature": "ed25519", "key": key_fingerprint(pem), "files": files}
    content = (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()
    (folder / MANIFEST).write_bytes(content)
    (folder / SIGNATURE).write_bytes(base64.b64encode(sign(secret, content)) + b"\n")
    return key_fingerprint(pem)


def verify_bundle(folder: Path, home: Path, key: Path | None = None) -> dict[str, Any]:
    """Check signature and hashes of a bundle; return its problems, the key's mark and how far the key is known.

    `key`: the sender's public key; else the key of this state folder; else the one in the bundle, which proves only
    that nothing changed after whoever holds it signed. Raises ConfigError when the folder is no bundle.
    """
    content, pem = _read(folder, MANIFEST), _read(folder, PUBLIC_KEY)
    known = read_public(key) if key is not None else own_public(home)
    trusted = known is not None and key_fingerprint(known) == key_fingerprint(pem)
    problems = []
    if key is not None and not trusted:
        problems.append(f"{PUBLIC_KEY}: is not the key in {key}")
    if not is_signed(pem, content, _signature(folder)):
        problems.append(f"{MANIFEST}: its signature does not hold; it was changed, or signed by another key")
    values = _manifest(content)
    if not problems and values.get("key") != key_fingerprint(pem):
        problems.append(f"{MANIFEST}: names another key")
    problems += _differences(folder, values.get("files", {}))
    return {
        "folder": str(folder),
        "run_id": values.get("run_id"),
        "key": key_fingerprint(pem),
        "key_known": trusted,
        "problems": problems,
    }


def exported_words(found: Mapping[str, Any]) -> str:
    """Return the files of a new bundle, and what to know before anybody uses them."""
    files = f"{found['folder']}: {', '.join(found['files'])}"
    return "\n".join([files, *(f"warning: {warning}" for warning in found["warnings"])])


def verified_words(found: Mapping[str, Any]) -> str:
    """Return the answer as people read it."""
    if found["problems"]:
        return "\n".join(["the bundle does NOT hold:", *(f"  {problem}" for problem in found["problems"])])
    whose = "a key that you named or own" if found["key_known"] else "a key that only the bundle itself names; compare"
    return f"the bundle of run {found['run_id']} holds; signed by {whose}: {found['key']}"


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _differences(folder: Path, listed: Any) -> list[str]:
    if not isinstance(listed, dict) or not listed:
        return [f"{MANIFEST}: lists no files"]
    there = set(_files(folder)) - {MANIFEST, SIGNATURE}
    found = [f"{name}: is not in the manifest" for name in sorted(there - set(listed))]
    for name, facts in sorted(listed.items()):
        if name not in there or ".." in PurePosixPath(name).parts:
            found.append(f"{name}: is missing")
        elif _leads_away(folder, name):
            found.append(f"{name}: is a link, not a file")
        elif not isinstance(facts, dict) or file_sha256(folder / name) != facts.get("sha256"):
            found.append(f"{name}: differs from what was signed")
    return found


def _leads_away(folder: Path, name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any(folder.joinpath(*parts[: depth + 1]).is_symlink() for depth in range(len(parts)))


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{folder} is no bundle of `wasp export`: {name} cannot be read ({error.strerror})") from None


def _signature(folder: Path) -> bytes:
    try:
        return base64.b64decode(_read(folder, SIGNATURE), validate=False)
    except binascii.Error:
        return b""


def _manifest(content: bytes) -> dict[str, Any]:
    try:
        values = json.loads(content)
    except ValueError:
        values = None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ArtifactError(f"{MANIFEST} is not a manifest of the form '{FORMAT}'; ask the sender for the bundle again")
    return values
