import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from connectors.artifacts.atomic_files import explain
from connectors.artifacts.store import Artifacts
from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.errors import ArtifactError
from wasp.testing import UNICODE

KEY = StepKey("vote", 1, {"votes": 8, "method": {"examples": 4}}, {"samples": "a" * 64})
TABLE = pd.DataFrame({"text": ["x", "y"], "n": [1, 2]})


@pytest.fixture
def store(tmp_path) -> Artifacts:
    return Artifacts(tmp_path / "home")


def files_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def odd_table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sample_id": np.arange(3, dtype=np.int64),
            "text": [UNICODE, "", "line\nbreak"],
            "label": ["a", "b", None],
            "weight": [0.1, 1 / 3, np.nan],
            "kept": [True, False, True],
        }
    )


@pytest.mark.parametrize("rows", [3, 0])
def test_a_table_comes_back_as_it_was(store, rows):
    table = odd_table().iloc[:rows]
    ref = store.write_table("runs/r/a.parquet", table, KEY, {"note": "x", "n": 3})
    pd.testing.assert_frame_equal(store.read_table(ref), table, check_dtype=rows > 0)
    assert (ref.rows, ref.key, ref.step, ref.path) == (rows, KEY.key, "vote", "runs/r/a.parquet")
    assert store.info(ref) == {"note": "x", "n": 3}


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (100, 384)])
def test_a_matrix_comes_back_bit_for_bit_in_blocks_or_in_one_piece(store, shape):
    matrix = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for arguments in (
        matrix,
        (matrix[start : start + 33] for start in range(0, max(len(matrix), 1), 33)),
    ):
        ref = store.write_matrix("embeddings/m.parquet", arguments, KEY)
        back = store.read_matrix(ref)
        assert (back.dtype, back.shape, ref.rows) == (np.float32, shape, shape[0])
        assert store.info(ref) == {"dimension": shape[1]}
        assert back.tobytes() == matrix.tobytes()
        blocks = list(store.read_matrix_blocks(ref))
        assert np.concatenate(blocks).tobytes() == matrix.tobytes()
        assert {block.shape[1] for block in blocks} == {shape[1]}
        assert not isinstance(arguments, np.ndarray) or len(blocks) == 1


def test_some_columns_of_a_table_are_read_with_those_of_its_path_in_the_order_asked_for(store):
    table = pd.DataFrame({"sample_id": [1, 2], "plm": ["a", "a"], "text": ["x", "y"]})
    ref = store.write_table("runs/r/plm=a/samples.parquet", table, KEY)
    for columns in (["text", "plm"], ["plm", "sample_id"], ["plm"]):
        pd.testing.assert_frame_equal(store.read_table(ref, columns), table[columns])
    with pytest.raises(KeyError, match="label"):
        store.read_table(ref, ["label"])


def test_blocks_of_a_matrix_that_is_replaced_during_reading_are_refused(store):
    matrix = np.zeros((4, 2), np.float32)
    ref = store.write_matrix("embeddings/m.parquet", [matrix, matrix], KEY)
    blocks = store.read_matrix_blocks(ref)
    next(blocks)
    store.write_matrix("embeddings/m.parquet", [matrix + 1, matrix], KEY)
    with pytest.raises(ArtifactError, match="damaged"):
        list(blocks)


def test_a_folder_comes_back_whole_and_replaces_the_old_one(store):
    store.write_folder("runs/r/student", lambda d: (d / "old").write_text("1"), KEY)

    def fill(folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "weights").write_bytes(b"123")

    ref = store.write_folder("runs/r/student", fill, KEY)
    files = [
        p.relative_to(store.home / ref.path).as_posix() for p in (store.home / ref.path).rglob("*")
    ]
    assert sorted(files) == ["sub", "sub/weights"]
    assert store.find("runs/r/student", KEY) is not None


@pytest.mark.parametrize("path", ["../a.json", "/etc/a.json", "runs/../../a.json", "", "."])
def test_paths_outside_the_state_folder_are_refused(store, path):
    with pytest.raises(ArtifactError, match="is outside the state folder"):
        store.write_json(path, {}, KEY)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, f"reused because nothing it depends on changed (key {KEY.key[:12]})"),
        ({"inputs": {"samples": "b" * 64}}, "recomputed because its inputs changed"),
        (
            {"parameters": {"votes": 8, "method": {"examples": 5}}},
            "recomputed because its parameters changed",
        ),
        ({"version": 2, "parameters": {}}, "recomputed because its version and parameters changed"),
        ({"step": "weigh"}, "recomputed because its step changed"),
    ],
)
def test_the_reason_names_what_changed(store, changes, why):
    ref, key = store.write_table("runs/r/a.parquet", TABLE, KEY), replace(KEY, **changes)
    actual, reason = store.look_up(ref.path, key)
    assert why in reason
    assert actual == store.find(ref.path, key) == (None if changes else replace(ref, reused=True))


def test_the_reason_distinguishes_a_missing_file_from_a_damaged_one_and_a_damaged_manifest(store):
    ref = store.write_table("runs/r/a.parquet", TABLE, KEY)
    path, data = store.home / ref.path, (store.home / ref.path).read_bytes()
    for state, spoil in (
        ("damaged", lambda: path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))),
        ("missing", path.unlink),
    ):
        spoil()
        assert store.look_up(ref.path, KEY) == (None, f"recomputed because the file is {state}")
        with pytest.raises(ArtifactError):
            store.read_table(ref)
    for content in ("", "{", "[]", '{"step": "vote"}', "\x00"):
        (store.home / "runs/r/_a.parquet.json").write_text(content)
        assert store.look_up(ref.path, KEY) == (None, "recomputed because its manifest is damaged")


def test_data_without_a_manifest_is_not_finished(store):
    ref = store.write_table("runs/r/a.parquet", TABLE, KEY)
    (store.home / "runs/r/_a.parquet.json").unlink()
    assert store.look_up(ref.path, KEY) == (
        None,
        "computed because an earlier result was never finished",
    )


def test_the_manifest_holds_every_fact(store):
    ref = store.write_table("runs/r/a.parquet", TABLE, KEY, {"note": 1})
    facts = json.loads((store.home / "runs/r/_a.parquet.json").read_text())
    created = facts.pop("created")
    assert created.endswith("+00:00")
    assert facts == {
        "step": "vote",
        "version": 1,
        "parameters": {"votes": 8, "method": {"examples": 4}},
        "inputs": {"samples": "a" * 64},
        "key": KEY.key,
        "sha256": ref.sha256,
        "rows": 2,
        "bytes": (store.home / ref.path).stat().st_size,
        "info": {"note": 1},
    }


def test_equal_tables_give_equal_bytes_whatever_pandas_calls_their_columns(store):
    first = store.write_table("a.parquet", TABLE, KEY)
    other = pd.DataFrame({"text": ["x", "y"], "n": [1, 2]}, index=[7, 9]).astype({"text": object})
    time.sleep(0.01)
    second = store.write_table("b.parquet", other, replace(KEY, version=2))
    assert first.sha256 == second.sha256


def test_a_run_of_partitions_is_one_table_for_pandas_and_each_file_reads_back_whole(store):
    written = {}
    for iteration in range(2):
        for plm in ("a", "b"):
            rows = 0 if (iteration, plm) == (1, "b") else 2
            table = pd.DataFrame(
                {"text": ["x", "y"], "plm": plm, "iteration": iteration, "n": [1, 2]}
            ).iloc[:rows]
            ref = store.write_table(
                f"runs/r/iteration={iteration}/plm={plm}/samples.parquet", table, KEY
            )
            written[ref] = table
    whole = pd.read_parquet(store.home / "runs/r")
    assert len(whole) == 6
    assert set(whole.columns) == {"text", "plm", "iteration", "n"}
    assert sorted(whole["plm"].astype(str)) == list("aaaabb")
    for ref, table in written.items():
        pd.testing.assert_frame_equal(store.read_table(ref), table.reset_index(drop=True))


def test_no_vectors_and_blocks_that_do_not_fit_together_are_refused_and_leave_nothing(store):
    blocks = (np.zeros((2, size), dtype=np.float32) for size in (3, 4))
    for wrong, message in ((blocks, "schema does not match"), (iter(()), "No block")):
        with pytest.raises((ArtifactError, ValueError), match=message):
            store.write_matrix("m.parquet", wrong, KEY)
    assert files_in(store.home) == []


def test_a_table_that_parquet_cannot_hold_is_refused_with_its_path(store):
    with pytest.raises(ArtifactError, match=r"a\.parquet"):
        store.write_table("a.parquet", pd.DataFrame({"mixed": [1, "x"]}), KEY)
    assert files_in(store.home) == []


def test_the_state_folder_is_the_owners_and_private_files_too(tmp_path):
    old = os.umask(0o022)
    try:
        store = Artifacts(tmp_path / "deep" / "home")
        store.write_json("private/inner/x.json", {}, KEY)
        store.write_folder("private/model", lambda d: (d / "w").write_text("1"), KEY)
        store.write_private_arrays("private/k.npz", {"a": np.ones(2)})
    finally:
        os.umask(old)
    assert mode(store.home) == 0o700
    assert mode(store.home / "private") == 0o700
    private = [p for p in (store.home / "private").rglob("*") if p.is_file()]
    assert len(private) == 5
    assert {mode(p) for p in private} == {0o600}


def test_private_arrays_never_use_pickle(store):
    with pytest.raises(ValueError, match="allow_pickle=False"):
        store.write_private_arrays("private/x.npz", {"a": np.array([{}], dtype=object)})
    with pytest.raises(ArtifactError, match="private/ only"):
        store.write_private_arrays("runs/x.npz", {"a": np.ones(2)})
    location = store.home / "private/x.npz"
    np.savez(location, a=np.array([{}], dtype=object))
    with pytest.raises(ArtifactError, match="damaged"):
        store.read_private_arrays("private/x.npz")
    location.write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(ArtifactError, match="damaged"):
        store.read_private_arrays("private/x.npz")


def test_a_link_that_leads_out_is_refused(store, tmp_path):
    (tmp_path / "outside").mkdir()
    (store.home / "runs").symlink_to(tmp_path / "outside")
    with pytest.raises(ArtifactError, match="outside the state folder"):
        store.write_json("runs/x.json", {}, KEY)
    assert files_in(tmp_path / "outside") == []


def test_a_json_object_comes_back_as_it_was_and_info_of_another_one_is_refused(store):
    value = {"b": [1, 2.5, None, {"c": UNICODE}], "a": True}
    ref = store.write_json("x.json", value, KEY)
    assert store.read_json(ref) == value
    store.write_json("x.json", {"a": 2}, KEY)
    with pytest.raises(ArtifactError, match="another result"):
        store.info(ref)


def test_read_folder_checks_every_file_and_a_lost_folder_is_not_found(store):
    ref = store.write_folder("student", lambda d: (d / "w").write_text("1"), KEY)
    assert (store.read_folder(ref) / "w").read_text() == "1"
    (store.home / "student/extra").write_text("2")
    with pytest.raises(ArtifactError, match="damaged"):
        store.read_folder(ref)
    shutil.rmtree(store.home / "student")
    assert store.find("student", KEY) is None


def test_a_failing_fill_leaves_the_old_folder_and_no_scratch(store):
    ref = store.write_folder("runs/student", lambda d: (d / "w").write_text("1"), KEY)

    def fail(folder: Path) -> None:
        (folder / "half").write_text("2")
        raise KeyError("x")

    with pytest.raises(KeyError):
        store.write_folder("runs/student", fail, replace(KEY, version=2))
    assert store.find("runs/student", KEY) == replace(ref, reused=True)
    assert sorted(p.name for p in (store.home / "runs").iterdir()) == ["_student.json", "student"]


class TestDisk:
    def test_a_path_that_cannot_be_made_is_an_artifact_error_with_the_path(self, store):
        store.write_text("runs", "a file where a folder should be")
        with pytest.raises(ArtifactError, match=r"runs/x\.json.*WASP_HOME"):
            store.write_json("runs/x.json", {}, KEY)

    @pytest.mark.parametrize(
        ("code", "advice"),
        [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission")],
    )
    def test_the_advice_fits_the_error(self, code, advice):
        message = str(explain(Path("runs/x"), OSError(code, os.strerror(code))))
        assert advice in message
        assert "runs/x" in message
        assert "WASP_HOME" in message

    def test_a_full_disk_leaves_the_old_artifact_and_no_scratch(self, tmp_path):
        script = f"""
            import resource, numpy as np, pandas as pd
            from connectors.artifacts.store import Artifacts
            from connectors.interfaces.artifacts import StepKey
            from connectors.interfaces.errors import ArtifactError
            store, key = Artifacts({str(tmp_path)!r}), StepKey("s", 1)
            old = store.write_matrix("m.parquet", np.ones((2, 2), np.float32), key)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            big = np.random.default_rng(0).normal(size=(1000, 384)).astype(np.float32)
            for write in (lambda: store.write_matrix("m.parquet", big, key),
                          lambda: store.write_table("t.parquet", pd.DataFrame(big).rename(columns=str), key),
                          lambda: store.write_private_arrays("private/p.npz", {{"a": big}}),
                          lambda: store.write_folder("f", lambda d: (d / "w").write_bytes(big.tobytes()), key)):
                try:
                    write()
                except ArtifactError as error:
                    assert "too large" in str(error), error
                else:
                    raise SystemExit("written beyond the limit")
            assert store.find("m.parquet", key) is not None
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
        assert files_in(tmp_path) == ["_m.parquet.json", "m.parquet"]


def _write_for_ever(home: str) -> None:
    store = Artifacts(Path(home))
    for n in range(10**9):
        table = pd.DataFrame({"n": np.full(20_000, n)})
        store.write_table("runs/r/a.parquet", table, replace(KEY, version=n))


def test_kill_at_any_moment_leaves_a_finished_artifact_or_none(tmp_path):
    context = multiprocessing.get_context("fork")
    store = Artifacts(tmp_path)
    finished = attempt = 0
    while attempt < 12 or (
        finished == 0 and attempt < 60
    ):  # a disk that is busy lets a while pass before one is there
        writer = context.Process(target=_write_for_ever, args=(str(tmp_path),))
        writer.start()
        time.sleep(0.05 + 0.013 * attempt)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        attempt += 1
        manifest = tmp_path / "runs/r/_a.parquet.json"
        if manifest.exists():
            version = json.loads(manifest.read_text())["version"]
            ref = store.find("runs/r/a.parquet", replace(KEY, version=version))
            if ref is not None:
                finished += 1
                assert set(store.read_table(ref)["n"]) == {version}
    assert finished > 0
    store.write_table("runs/r/a.parquet", TABLE, KEY)
    assert store.find("runs/r/a.parquet", KEY) is not None
