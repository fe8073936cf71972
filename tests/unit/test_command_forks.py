"""The parent of forked commands removes its own files only."""

from pathlib import Path

from tests.support.processes.command_forks import remove_own_files


def test_files_of_others_beside_the_address_stay(tmp_path: Path) -> None:
    folder = tmp_path / "forks"
    folder.mkdir()
    for name in ("line", "thesis.txt"):
        (folder / name).write_text("content")
    remove_own_files(folder / "line")
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
    (folder / "thesis.txt").unlink()
    remove_own_files(folder / "line")
    assert list(tmp_path.iterdir()) == []
