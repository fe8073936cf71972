"""Model folders of the hub's form, for embedders and language models: files, digests, quiet loading."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.content_keys import digest

_LOUD = ("sentence_transformers", "transformers", "huggingface_hub")
# The voice of a library belongs to the process, and so does what is remembered of it.
_LOADING = threading.RLock()
_silenced: list[int] = []
_before: dict[str, int] = {}


def files_of(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the files below `folder` with one of the endings, sorted; exports for other runtimes are left out."""
    found = (f for f in folder.rglob("*") if f.suffix in endings and f.is_file())
    return sorted(f for f in found if f.relative_to(folder).parts[0] not in ("onnx", "openvino"))


def digest_of(files: Sequence[Path], folder: Path) -> str:
    """Return the SHA-256 of one file, or of the names and SHA-256s of several."""
    if len(files) == 1:
        return file_sha256(files[0])
    return digest({f.relative_to(folder).as_posix(): file_sha256(f) for f in files})


@contextmanager
def loading() -> Iterator[None]:
    """Let one thread at a time import the libraries and load a model, quietly.

    transformers replaces its own module while it is imported: a second thread sees a half-made one.
    """
    with _LOADING, quiet():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and hints of the libraries, and give them their voice back with the last thread out."""
    with _LOADING:
        from transformers.utils import logging as voice

        if not _silenced:
            _before.update({name: logging.getLogger(name).level for name in _LOUD})
            _before["bars"] = int(voice.is_progress_bar_enabled())
        _silenced.append(1)
        voice.disable_progress_bar()
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        with _LOADING:
            _silenced.pop()
            if not _silenced:
                for name in _LOUD:
                    logging.getLogger(name).setLevel(_before[name])
                if _before["bars"]:
                    voice.enable_progress_bar()
