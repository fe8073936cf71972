"""The hash cache of a process remembers nothing that could hide a change of a file."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from connectors.artifacts import manifests
from connectors.artifacts.manifests import TICK_NS, current_sha256
from connectors.artifacts.store import Artifacts
from connectors.interfaces.artifacts import ArtifactRef


@pytest.fixture
def store(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "home")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are hashed from now on."""
    names: list[str] = []
    real = manifests.file_sha256
    monkeypatch.setattr(
        manifests, "file_sha256", lambda path: (names.append(path.name), real(path))[1]
    )
    return names


def settled(path: Path) -> Path:
    """Wait until a change of the file would show in its times."""
    time.sleep(TICK_NS / 1e9 + 0.005)
    return path


def test_a_file_is_hashed_once_unless_it_has_just_changed(tmp_path: Path, hashed: list[str]):
    file = tmp_path / "a"
    file.write_bytes(b"one")
    current_sha256(file)
    file.write_bytes(b"two")
    assert current_sha256(file) == manifests.file_sha256(file)
    hashed.clear()
    assert current_sha256(settled(file)) == current_sha256(file)
    assert hashed == ["a"]
    file.unlink()
    with pytest.raises(FileNotFoundError):
        current_sha256(file)


@pytest.mark.parametrize("how", ["written over", "replaced", "written over and dated back"])
def test_a_change_of_equal_length_is_seen(tmp_path: Path, how: str):
    file = tmp_path / "a"
    file.write_bytes(b"one")
    before, times = current_sha256(settled(file)), file.stat()
    assert current_sha256(file) == before
    if how == "replaced":
        (tmp_path / "b").write_bytes(b"two")
        (tmp_path / "b").replace(file)
    else:
        file.write_bytes(b"two")
    if how.endswith("back"):
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert current_sha256(file) != before


def test_vectors_as_an_earlier_version_wrote_them_are_read(store: Artifacts):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from connectors.artifacts.atomic_files import file_sha256

    matrix = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), 50, [None, pa.py_buffer(matrix)])
    notes = {b"wasp.dtype": b"float32", b"wasp.dimension": b"4"}
    path = store.home / "old.parquet"
    table = pa.table({"vector": column}).replace_schema_metadata(notes)
    pq.write_table(
        table,
        path,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        row_group_size=20,
    )
    result = store.read_matrix(ArtifactRef("old.parquet", file_sha256(path), "k", "embed", 50))
    assert result.tobytes() == matrix.tobytes()
