"""Sign a bundle with a manifest of file hashes, and verify a received bundle."""

import base64
import binascii
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.interfaces.json_values import Json
from connectors.security.signing import (
    is_signed,
    key_fingerprint,
    own_public,
    public_pem,
    read_public,
    sign,
)

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
PUBLIC_KEY = "public_key.pem"
FORMAT = "wasp bundle 1"


def seal(folder: Path, secret: bytes, facts: Json) -> str:
    """Write public key, manifest and signature into a bundle.

    Return the fingerprint of the key.

    `facts`: manifest fields in addition to the hashes. manifest.sig is the Ed25519 signature of manifest.json, base64.
    """
    pem = public_pem(secret)
    (folder / PUBLIC_KEY).write_bytes(pem)
    # The public key is among the files, manifest and signature are not: they do not exist yet.
    files = {
        name: {"sha256": file_sha256(folder / name), "bytes": (folder / name).stat().st_size}
        for name in _files(folder)
    }
    values = {
        "format": FORMAT,
        **facts,
        "signature": "ed25519",
        "key": key_fingerprint(pem),
        "files": files,
    }
    # The signature covers these bytes: a receiver checks it before the JSON is read.
    content = (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()
    (folder / MANIFEST).write_bytes(content)
    (folder / SIGNATURE).write_bytes(base64.b64encode(sign(secret, content)) + b"\n")
    return key_fingerprint(pem)


def verify_bundle(folder: Path, home: Path, key: Path | None = None) -> Json:
    """Check signature and hashes of a bundle.

    Return its problems, key fingerprint and whether the key is trusted.

    `key`: the sender's public key; default: the key of this state folder, else the key in the bundle. The latter
    proves only that the files did not change after signing. ConfigError if the folder is not a bundle.
    """
    content = _read(folder, MANIFEST)
    pem = _read(folder, PUBLIC_KEY)
    expected = read_public(key) if key is not None else own_public(home)
    trusted = expected is not None and key_fingerprint(expected) == key_fingerprint(pem)
    problems = []
    if key is not None and not trusted:
        problems.append(f"{PUBLIC_KEY}: differs from the key in {key}")
    if not is_signed(pem, content, _signature(folder)):
        problems.append(
            f"{MANIFEST}: invalid signature; the file was changed or signed with another key"
        )
    values = _manifest(content)
    # Only a valid signature makes the named key worth a comparison.
    if not problems and values.get("key") != key_fingerprint(pem):
        problems.append(f"{MANIFEST}: contains another key")
    problems += _differences(folder, values.get("files", {}))
    return {
        "folder": str(folder),
        "run_id": values.get("run_id"),
        "key": key_fingerprint(pem),
        "key_known": trusted,
        "problems": problems,
    }


def format_export(result: Json) -> str:
    """Return the files and warnings of a new bundle as text."""
    files = f"{result['folder']}: {', '.join(result['files'])}"
    return "\n".join([files, *(f"warning: {warning}" for warning in result["warnings"])])


def format_verification(result: Json) -> str:
    """Return the result of a verification as text."""
    if result["problems"]:
        return "\n".join(
            ["the bundle is NOT valid:", *(f"  {problem}" for problem in result["problems"])]
        )
    whose = "an unverified key from the bundle itself. Get the sender's key through another channel and use --key"
    if result["key_known"]:
        whose = "a key that you specified or own"
    return f"the bundle of run {result['run_id']} is valid; signed by {whose}: {result['key']}"


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        # A link to a folder counts as a file, else its contents would escape the manifest.
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _differences(folder: Path, listed: object) -> list[str]:
    if not isinstance(listed, dict) or not listed:
        return [f"{MANIFEST}: lists no files"]
    names = set(_files(folder)) - {MANIFEST, SIGNATURE}
    problems = [f"{name}: is not in the manifest" for name in sorted(names - set(listed))]
    for name, facts in sorted(listed.items()):
        # `..` would name a file outside the bundle, which the sender did not sign.
        if name not in names or ".." in PurePosixPath(name).parts:
            problems.append(f"{name}: is missing")
        elif _contains_link(folder, name):
            problems.append(f"{name}: is a link, not a file")
        elif not isinstance(facts, dict) or file_sha256(folder / name) != facts.get("sha256"):
            problems.append(f"{name}: differs from what was signed")
    return problems


def _contains_link(folder: Path, name: str) -> bool:
    # Each parent folder too: a linked folder could be changed after the signature.
    parts = PurePosixPath(name).parts
    return any(folder.joinpath(*parts[: depth + 1]).is_symlink() for depth in range(len(parts)))


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{folder}: not a bundle of `wasp export` ({name}: {error.strerror}). Name the folder of a bundle."
        ) from None


def _signature(folder: Path) -> bytes:
    try:
        return base64.b64decode(_read(folder, SIGNATURE), validate=False)
    except binascii.Error:
        return b""


def _manifest(content: bytes) -> Json:
    try:
        values = json.loads(content)
    except ValueError:
        values = None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ArtifactError(
            f"{MANIFEST}: not a manifest in the format '{FORMAT}'. Request the bundle from the sender again."
        )
    return values
