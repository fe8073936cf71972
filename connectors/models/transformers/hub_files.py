"""Model folders in the hub's format: files, digests, quiet loading.

Embedders and language models use them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.content_keys import digest

_LIBRARIES = ("sentence_transformers", "transformers", "huggingface_hub")
# Logging levels and module imports belong to the whole process.
_LOADING = threading.RLock()
_silenced: list[int] = []
_before: dict[str, int] = {}


def files_of(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files below `folder` with one of the suffixes, sorted.

    Exports for other runtimes are left out.
    """
    files = (f for f in folder.rglob("*") if f.suffix in suffixes and f.is_file())
    return sorted(f for f in files if f.relative_to(folder).parts[0] not in ("onnx", "openvino"))


def digest_of(files: Sequence[Path], folder: Path) -> str:
    """Return the SHA-256 of one file, or of the names and SHA-256s of several."""
    if len(files) == 1:
        return file_sha256(files[0])
    return digest({f.relative_to(folder).as_posix(): file_sha256(f) for f in files})


@contextmanager
def loading() -> Iterator[None]:
    """Let one thread at a time import the libraries and load a model, quietly.

    transformers replaces its own module during the import: a second thread would see it incomplete.
    """
    with _LOADING, quiet():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Silence progress bars and hints of the libraries until the last thread leaves."""
    with _LOADING:
        from transformers.utils import logging as library_logging

        if not _silenced:
            _before.update({name: logging.getLogger(name).level for name in _LIBRARIES})
            _before["bars"] = int(library_logging.is_progress_bar_enabled())
        _silenced.append(1)
        library_logging.disable_progress_bar()
        for name in _LIBRARIES:
            logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        with _LOADING:
            _silenced.pop()
            if not _silenced:
                for name in _LIBRARIES:
                    logging.getLogger(name).setLevel(_before[name])
                if _before["bars"]:
                    library_logging.enable_progress_bar()
