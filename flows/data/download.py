"""Fetch files of an origin: resumable, checked before use, one process at a time for each file."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from connectors.artifacts.atomic_files import locked, make_folder, write_text_whole
from connectors.interfaces.errors import InputError, TemporaryError
from flows.data.progress import Progress, shown
from flows.data.readers import members_digest
from flows.data.recipes import Source, SourceFile
from flows.runtime.terminal_progress import display

BLOCK = 1 << 18
ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 1.0
TIMEOUT = httpx.Timeout(30.0)
PARTIAL = 206
UNSATISFIABLE = 416
"""HTTP status of a range that begins behind the end: the partial file is whole."""
RETRIED = (408, 425, 429, 500, 502, 503, 504)
"""HTTP statuses of a passing fault."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched file whose digest is right.

    Attributes:
        digest: the digest that was compared.
        is_first_use: True if neither the recipe nor an earlier use states a digest.
    """

    digest: str
    is_first_use: bool


class Downloads:
    """The raw files of a data folder.

    Args:
        folder: where they are stored, each below the digest of its address.
        mirror: a folder or address with copies; a file of https://HOST/PATH is at MIRROR/HOST/PATH.
    """

    def __init__(self, folder: Path, mirror: str | None = None) -> None:
        self._folder = folder
        self._mirror = mirror

    def address(self, source: Source, file: SourceFile) -> str:
        """Return the address from which a file is fetched."""
        origin = source.address(file)
        if self._mirror is None:
            return origin
        parts = urlsplit(origin)
        path = f"{parts.netloc}{parts.path}"
        # In a local folder, files have their plain names.
        if not self._mirror.startswith(("http://", "https://")):
            path = unquote(path)
        return f"{self._mirror.rstrip('/')}/{path}"

    def stored(self, source: Source, file: SourceFile) -> Path:
        """Return the path of a raw file, fetched or not."""
        origin = source.address(file)
        folder = self._folder / hashlib.sha256(origin.encode()).hexdigest()[:16]
        return folder / unquote(file.path).rsplit("/", 1)[-1]

    def fetch(self, source: Source, file: SourceFile, number: str = "") -> Fetched:
        """Return a file, fetched unless it is stored already.

        Args:
            source: its source.
            file: the file.
            number: its number among all files, for the progress display.

        Raises:
            InputError: the origin has no such file, or its digest is wrong; the file is then kept apart.
            TemporaryError: the origin cannot be reached; the next call resumes.
        """
        path = self.stored(source, file)
        make_folder(path.parent)
        with _only_process(path):
            if path.is_file():
                return self._check(source, file, path)
            partial = path.with_name(f"{path.name}.part")
            if not _can_resume(file):
                partial.unlink(missing_ok=True)
            _transfer(
                self.address(source, file), partial, Progress(f"{number}{path.name}", file.bytes)
            )
            fetched = self._check(source, file, partial)
            partial.replace(path)
            return fetched

    def _check(self, source: Source, file: SourceFile, path: Path) -> Fetched:
        """Return a file whose digest is right; else keep it apart and raise InputError."""
        address = self.address(source, file)
        stored = self.stored(source, file)
        refused = stored.with_name(f"{stored.name}.refused")
        try:
            kind, expected, actual = _digests(source, file, path, address)
        except InputError:
            # Away with an archive that cannot be read: every further call would resume behind its end.
            path.replace(refused)
            raise
        hint = "Fetch it again, or correct the recipe if the origin has a new version"
        is_first_use = False
        if expected is None:
            # Trust on first use: the digest of the first fetch is expected from then on.
            recorded = stored.with_name(f"{stored.name}.sha256")
            is_first_use = not recorded.is_file()
            if is_first_use:
                write_text_whole(recorded, f"{actual}\n")
            kind = "SHA-256"
            expected = recorded.read_text(encoding="utf-8").strip()
            hint = f"The recipe states none; the first use recorded it. To trust the new file, remove {recorded}"
        if actual != expected:
            path.replace(refused)
            raise InputError(
                f"{address}: {kind} is {actual}, expected {expected}. Nothing was prepared; the file is kept at "
                f"{refused}. {hint}"
            )
        return Fetched(actual, is_first_use)


def _can_resume(file: SourceFile) -> bool:
    # Without a digest, nothing would show that two halves belong to different versions.
    return file.is_pinned or file.members_sha256 is not None


def _digests(
    source: Source, file: SourceFile, path: Path, address: str
) -> tuple[str, str | None, str]:
    """Return the kind of digest, the expected and the actual one."""
    if file.members_sha256 is not None:
        return "SHA-256 of the members", file.members_sha256, members_digest(source, path, address)
    if file.sha256 is None and file.git_blob is not None:
        return "git blob id", file.git_blob, _hash(path, "sha1", f"blob {path.stat().st_size}\0")
    return "SHA-256", file.sha256, _hash(path, "sha256")


def _hash(path: Path, name: str, before: str = "") -> str:
    # SHA-1 only as the id that git gives a file.
    digest = hashlib.new(name, before.encode(), usedforsecurity=name != "sha1")
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _only_process(path: Path) -> Iterator[None]:
    """Lock a raw file among processes; a killed process releases it."""
    lock = path.with_name(f"{path.name}.lock")
    with locked(lock, wait=False) as is_locked:
        if is_locked:
            yield
            return
    display().say(f"Another process fetches {path.name}; waiting for it ...")
    with locked(lock):
        yield


def _transfer(address: str, partial: Path, progress: Progress) -> None:
    """Append what is missing to a partial file."""
    with shown(progress):
        if not address.startswith(("http://", "https://")):
            _copy(address, partial, progress)
            return
        for attempt in range(ATTEMPTS):
            try:
                _request(address, partial, progress)
                return
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
            except _PassingStatusError as error:
                problem = f"HTTP {error}"
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise InputError(
                    f"{address}: cannot be fetched ({error}). Check the address"
                ) from error
            if attempt + 1 < ATTEMPTS:
                display().say(f"{address}: {problem}; trying again ...")
                time.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
    raise TemporaryError(
        f"{address}: cannot be fetched ({problem}). Check the network and run the command again: it resumes"
    )


class _PassingStatusError(Exception):
    """An HTTP status that is worth a retry."""


def _request(address: str, partial: Path, progress: Progress) -> None:
    start = partial.stat().st_size if partial.is_file() else 0
    # Compressed transfers have other bytes than the file, whose positions a range means.
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with httpx.stream(
        "GET", address, headers=headers, follow_redirects=True, timeout=TIMEOUT
    ) as response:
        if start and response.status_code == UNSATISFIABLE:
            return
        if response.status_code in RETRIED:
            raise _PassingStatusError(str(response.status_code))
        if response.is_error:
            raise InputError(
                f"{address}: the origin answers HTTP {response.status_code} {response.reason_phrase}. Check that it "
                "still exists; a copy can be named with --from"
            )
        # An origin that ignores the range sends the whole file.
        if response.status_code != PARTIAL:
            start = 0
        length = response.headers.get("Content-Length")
        progress.begin(start, start + int(length) if length else None)
        # Without a block size: a break of the connection would lose what waits for a whole block.
        _append(response.iter_raw(), partial, start, progress)


def _append(blocks: Iterator[bytes], partial: Path, start: int, progress: Progress) -> None:
    with partial.open("r+b" if start else "wb") as file:
        file.seek(start)
        for block in blocks:
            file.write(block)
            # At once in the file, from which a killed process resumes.
            file.flush()
            progress.add(len(block))


def _copy(address: str, partial: Path, progress: Progress) -> None:
    """Copy a file that is not on a web server, from its beginning."""
    import fsspec

    try:
        with fsspec.open(address, "rb") as source:
            progress.begin(0, getattr(source, "size", None))
            _append(iter(lambda: source.read(BLOCK), b""), partial, 0, progress)
    except FileNotFoundError:
        raise InputError(f"{address}: does not exist. Check the address") from None
    except (ImportError, ValueError, OSError) as error:
        raise InputError(f"{address}: cannot be read ({error}). Check the address") from error
