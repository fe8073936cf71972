"""Obtaining a data set: agreement, transfer, digests, files, also when something goes wrong."""

import hashlib
import io
import json
import re
import tarfile
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from connectors.interfaces.errors import (
    ArtifactError,
    ConfigError,
    InputError,
    MissingPackageError,
    TemporaryError,
)
from flows.data import obtain, progress
from flows.data.obtain import OWN, DataFolder
from flows.data.preparation import file_digest
from flows.data.rows import Rows
from tests.support.servers.files import FileServer, recipe_values
from tests.unit.flows.data.conftest import AGREED, ROWS, pinned, write_recipe


def raw_files(folder: Path, ending: str) -> list[Path]:
    return sorted((folder / OWN / "raw").glob(f"*/*{ending}"))


def test_a_set_is_fetched_once_and_then_known(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    folder = DataFolder(tmp_path / "data")
    first = folder.obtain("mine", recipe, AGREED)
    second = folder.obtain("mine", recipe, pytest.fail)
    rows = pq.read_table(tmp_path / "data/mine/train.parquet").to_pylist()
    assert len(rows) == 400
    assert set(rows[0]) == {"text", "label"}
    assert (first.was_present, second.was_present) == (False, True)
    assert first.files == second.files
    assert first.first_uses == {}
    assert origin.requests == [("/set/rows.csv", None)]


def test_all_is_shown_before_the_first_byte(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    shown: list[str] = []

    def refuse(text: str) -> bool:
        shown.append(text)
        assert origin.requests == []
        return False

    with pytest.raises(ConfigError, match="you did not agree"):
        DataFolder(tmp_path / "data").obtain("mine", recipe, refuse)
    for part in (
        f"{origin.address}/set/rows.csv",
        "licence    CC0",
        "cite       None.",
        "1 file, 8 kB",
    ):
        assert part in shown[0]
    assert origin.requests == []


def test_without_a_terminal_the_option_is_named(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    with pytest.raises(ConfigError, match="add --yes"):
        DataFolder(tmp_path / "data").obtain("mine", recipe, lambda _: None)
    assert origin.requests == []


def test_an_agreement_is_stored_until_the_licence_changes(
    origin: FileServer, tmp_path: Path
) -> None:
    values = pinned(origin)
    folder = DataFolder(tmp_path / "data")
    folder.obtain("mine", write_recipe(tmp_path / "mine.yaml", values), AGREED)
    (tmp_path / "data/mine/train.parquet").unlink()
    folder.obtain("mine", write_recipe(tmp_path / "mine.yaml", values), pytest.fail)
    (tmp_path / "data/mine/train.parquet").unlink()
    changed = write_recipe(tmp_path / "other.yaml", values | {"licence": "All rights reserved"})
    with pytest.raises(ConfigError, match="did not agree"):
        folder.obtain("mine", changed, lambda _: False)


def test_a_wrong_digest_stops_before_anything_is_prepared(
    origin: FileServer, tmp_path: Path
) -> None:
    values = recipe_values(origin, sha256="0" * 64)
    recipe = write_recipe(tmp_path / "mine.yaml", values)
    actual = hashlib.sha256(ROWS).hexdigest()
    with pytest.raises(InputError, match=f"is {actual}, expected {'0' * 64}"):
        DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    assert [path.read_bytes() for path in raw_files(tmp_path / "data", ".refused")] == [ROWS]
    assert raw_files(tmp_path / "data", ".csv") == []
    assert not (tmp_path / "data/mine").exists()


def test_a_raw_file_that_changed_on_disk_is_refused(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    folder = DataFolder(tmp_path / "data")
    folder.obtain("mine", recipe, AGREED)
    (tmp_path / "data/mine/train.parquet").unlink()
    (raw,) = raw_files(tmp_path / "data", ".csv")
    raw.write_bytes(ROWS + b"another,1\n")
    with pytest.raises(InputError, match="expected"):
        folder.obtain("mine", recipe, AGREED)
    folder.obtain("mine", recipe, AGREED)
    assert len(origin.requests) == 2


def test_the_id_of_a_git_blob_is_a_digest_too(origin: FileServer, tmp_path: Path) -> None:
    blob = hashlib.sha1(b"blob %d\0" % len(ROWS) + ROWS).hexdigest()
    recipe = write_recipe(tmp_path / "mine.yaml", recipe_values(origin, git_blob=blob))
    obtained = DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    assert obtained.first_uses == {}
    other = write_recipe(tmp_path / "mine.yaml", recipe_values(origin, git_blob="1" * 40))
    with pytest.raises(InputError, match=f"git blob id is {blob}"):
        DataFolder(tmp_path / "other").obtain("mine", other, AGREED)


def test_a_file_without_a_digest_is_trusted_on_first_use_alone(
    origin: FileServer, tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", recipe_values(origin))
    folder = DataFolder(tmp_path / "data")
    first = folder.obtain("mine", recipe, AGREED)
    address = f"{origin.address}/set/rows.csv"
    assert first.first_uses == {address: hashlib.sha256(ROWS).hexdigest()}
    (tmp_path / "data/mine/train.parquet").unlink()
    assert folder.obtain("mine", recipe, AGREED).first_uses == {}
    (tmp_path / "data/mine/train.parquet").unlink()
    raw_files(tmp_path / "data", ".csv")[0].unlink()
    origin.files["/set/rows.csv"] = ROWS + b"changed,1\n"
    with pytest.raises(InputError, match="the first use recorded it"):
        folder.obtain("mine", recipe, AGREED)


def test_a_broken_transfer_resumes(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    origin.breaks, origin.break_after = 2, 3000
    DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    assert [asked for _, asked in origin.requests] == [None, "bytes=3000-", "bytes=6000-"]


def test_an_origin_without_ranges_starts_again(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    origin.breaks, origin.break_after = 1, 3000
    origin.takes_ranges = False
    obtained = DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    assert len(obtained.files) == 1


def test_a_lasting_fault_ends_and_the_next_call_resumes(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    origin.breaks, origin.break_after = 5, 1000
    folder = DataFolder(tmp_path / "data")
    with pytest.raises(TemporaryError, match="run the command again: it resumes"):
        folder.obtain("mine", recipe, AGREED)
    folder.obtain("mine", recipe, pytest.fail)
    assert origin.requests[-1][1] == "bytes=5000-"


def test_a_whole_partial_file_is_used(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    folder = DataFolder(tmp_path / "data")
    # As after kill -9 between the last byte and the new name.
    (source, file), *_ = recipe.files
    raw = folder.downloads.stored(source, file)
    raw.parent.mkdir(parents=True)
    raw.with_name(f"{raw.name}.part").write_bytes(ROWS)
    folder.obtain("mine", recipe, AGREED)
    assert origin.requests == [("/set/rows.csv", f"bytes={len(ROWS)}-")]


def test_without_a_digest_two_halves_are_never_joined(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", recipe_values(origin))
    folder = DataFolder(tmp_path / "data")
    (source, file), *_ = recipe.files
    raw = folder.downloads.stored(source, file)
    raw.parent.mkdir(parents=True)
    raw.with_name(f"{raw.name}.part").write_bytes(b"text,label\nof another version,1\n")
    folder.obtain("mine", recipe, AGREED)
    assert origin.requests == [("/set/rows.csv", None)]


def test_passing_statuses_are_retried_and_others_named(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    origin.statuses = [503, 429]
    DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    assert len(origin.requests) == 3
    origin.files.clear()
    with pytest.raises(InputError, match=r"HTTP 404 .* --from"):
        DataFolder(tmp_path / "other").obtain("mine", recipe, AGREED)


def test_two_at_once_fetch_each_file_once(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    origin.pause = 0.02
    results = []

    def fetch() -> None:
        results.append(DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED))

    threads = [threading.Thread(target=fetch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.files for result in results] == [results[0].files] * 2
    assert origin.requests == [("/set/rows.csv", None)]


def test_files_with_other_rows_are_not_replaced_unasked(origin: FileServer, tmp_path: Path) -> None:
    other = recipe_values(origin)
    other["tables"]["rows"].append({"slice": {"take": 5}})
    there = DataFolder(tmp_path / "data")
    there.obtain("other", write_recipe(tmp_path / "other.yaml", other), AGREED)
    (tmp_path / "data" / OWN / "files.json").unlink()
    before = file_digest(tmp_path / "data/mine/train.parquet")
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    with pytest.raises(ConfigError, match="exists with other rows"):
        there.obtain("mine", recipe, AGREED)
    assert file_digest(tmp_path / "data/mine/train.parquet") == before
    DataFolder(tmp_path / "data", replace=True).obtain("mine", recipe, AGREED)
    assert file_digest(tmp_path / "data/mine/train.parquet")[1] == 400


def test_rows_that_differ_from_the_stated_ones_are_not_written(
    origin: FileServer, tmp_path: Path
) -> None:
    for stated, message in (({"rows": 7}, "yields 400 rows"), ({"digest": "0" * 64}, "digest")):
        values = pinned(origin)
        values["outputs"]["mine/train.parquet"] |= stated
        recipe = write_recipe(tmp_path / "mine.yaml", values)
        with pytest.raises(InputError, match=message):
            DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
        assert not (tmp_path / "data/mine").exists()


def test_a_mirror_takes_the_place_of_the_origin(origin: FileServer, tmp_path: Path) -> None:
    values = pinned(origin)
    values["sources"]["rows"]["base"] = "https://example.org/a%20set"
    recipe = write_recipe(tmp_path / "mine.yaml", values)
    copy = tmp_path / "copies/example.org/a set/rows.csv"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(ROWS)
    folder = DataFolder(tmp_path / "data", mirror=str(tmp_path / "copies"))
    assert folder.obtain("mine", recipe, AGREED).files
    origin.files["/example.org/a set/rows.csv"] = ROWS
    folder = DataFolder(tmp_path / "other", mirror=origin.address)
    assert folder.obtain("mine", recipe, AGREED).files
    with pytest.raises(InputError, match="does not exist"):
        DataFolder(tmp_path / "third", mirror=str(tmp_path)).obtain("mine", recipe, AGREED)


def test_a_folder_that_cannot_be_written_is_named(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ArtifactError, match=r"file/data: cannot be used .* --to"):
        DataFolder(tmp_path / "file" / "data").obtain("mine", recipe, AGREED)


def test_agreements_say_what_and_when(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    stored = json.loads((tmp_path / "data" / OWN / "agreements.json").read_text())
    (entry,) = stored.values()
    assert entry["licence"] == "CC0"
    assert entry["recipe"] == "mine"


def test_a_damaged_file_is_named_and_hides_no_other_set(origin: FileServer, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    folder = DataFolder(tmp_path / "data")
    assert folder.state(recipe) == "missing"
    folder.obtain("mine", recipe, AGREED)
    assert folder.state(recipe) == "present"
    (tmp_path / "data/mine/train.parquet").write_bytes(b"PAR1")
    assert folder.state(recipe) == "other rows"
    with pytest.raises(InputError, match=r"train.parquet: is not a readable Parquet file"):
        folder.obtain("mine", recipe, AGREED)


def test_a_missing_package_is_named_before_the_first_byte(
    origin: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = pinned(origin)
    values["sources"]["rows"]["format"] = "xlsx"
    recipe = write_recipe(tmp_path / "mine.yaml", values)
    monkeypatch.setattr("flows.data.obtain.find_spec", lambda _: None)
    with pytest.raises(MissingPackageError, match="openpyxl"):
        DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    assert origin.requests == []


def test_files_that_a_killed_process_wrote_are_its_own(
    origin: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = recipe_values(origin)
    values["outputs"]["mine/test.parquet"] = {"table": "rows"}
    recipe = write_recipe(tmp_path / "mine.yaml", values)
    folder = DataFolder(tmp_path / "data")
    write = obtain.write_rows

    def write_first(path: Path, rows: Rows) -> None:
        if path.exists() or list(path.parent.glob("*.parquet")):
            raise KeyboardInterrupt
        write(path, rows)

    monkeypatch.setattr(obtain, "write_rows", write_first)
    with pytest.raises(KeyboardInterrupt):
        folder.obtain("mine", recipe, AGREED)
    monkeypatch.setattr(obtain, "write_rows", write)
    assert len(folder.obtain("mine", recipe, pytest.fail).files) == 2


def test_progress_names_the_file_its_number_rate_and_time_left(
    origin: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe = write_recipe(tmp_path / "mine.yaml", pinned(origin))
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    origin.pause = 0.01
    DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"1/1 rows.csv: \d+ kB of 8 kB, [\d.]+ [kM]B/s, .* left", lines[1])
    assert re.fullmatch(r"1/1 rows.csv: 8 kB of 8 kB, [\d.]+ [kM]B/s", lines[-1])


def test_an_archive_without_a_length_is_fetched_and_verified_by_its_members(
    origin: FileServer, tmp_path: Path
) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        for number in range(20):
            info = tarfile.TarInfo(f"repo-0123/texts/pos/{number}.txt")
            info.size = 5
            packed.addfile(info, io.BytesIO(b"made%d" % (number % 10)))
    origin.files["/repo/archive/0123.tar.gz"] = archive.getvalue()
    origin.states_length = False
    origin.takes_ranges = False
    lines = sorted(
        f"{hashlib.sha256(b'made%d' % (number % 10)).hexdigest()}  texts/pos/{number}.txt\n"
        for number in range(20)
    )
    values = recipe_values(origin)
    values["sources"]["rows"] = {
        "base": f"{origin.address}/repo/archive",
        "format": "archive",
        "members": r"texts/(?P<label>pos|neg)/\d+\.txt$",
        "files": [
            {
                "path": "0123.tar.gz",
                "members_sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
            }
        ],
    }
    recipe = write_recipe(tmp_path / "mine.yaml", values)
    origin.breaks, origin.break_after = 1, 100
    # Without a length, a cut answer looks like a whole one.
    with pytest.raises(InputError, match="is not a whole archive"):
        DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    obtained = DataFolder(tmp_path / "data").obtain("mine", recipe, AGREED)
    assert obtained.first_uses == {}
    assert pq.read_table(tmp_path / "data/mine/train.parquet").num_rows == 20
