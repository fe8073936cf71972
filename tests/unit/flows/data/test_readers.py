"""Each format of a source, on made-up files of the layouts of the origins."""

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from connectors.interfaces.errors import InputError
from flows.data.readers import members_digest, read_file
from flows.data.recipes import Source

MEMBERS = {
    "repo-0123/aclImdb/train/pos/50_9.txt": b"Good.<br />Yes.",
    "repo-0123/aclImdb/train/neg/51_2.txt": b"Bad.",
    "repo-0123/app.py": b"print()",
}
PATTERN = r"aclImdb/train/(?P<label>pos|neg)/(?P<number>\d+)_\d+\.txt$"


def source(kind: str, **values: object) -> Source:
    return Source.model_validate(
        {"base": "https://example.org", "format": kind, "files": [{"path": "x"}], **values}
    )


def tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_csv_has_a_header_or_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('text,label\n"a, ""b""\nc",1\n', encoding="utf-8-sig")
    assert read_file(source("csv"), path, "x") == [{"text": 'a, "b"\nc', "label": "1"}]
    path.write_text('"1","a"\n\n"2","b"\n')
    rows = read_file(source("csv", header=["label", "text"]), path, "x")
    assert rows == [{"label": "1", "text": "a"}, {"label": "2", "text": "b"}]
    path.write_text("a,b\n1\n")
    with pytest.raises(InputError, match="cannot be read as csv"):
        read_file(source("csv"), path, "x")


def test_json_lines_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    line = json.dumps({"C": "a\u2028b", "Y": 0, "X": None, "k": ["x"]}, ensure_ascii=False)
    path.write_bytes(gzip.compress(f"{line}\n\n".encode()))
    assert read_file(source("jsonl"), path, "x") == [
        {"C": "a\u2028b", "Y": 0, "X": None, "k": '["x"]'}
    ]


def test_lines_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(b"you 7\r\ni 5\n")
    assert read_file(source("lines"), path, "x") == [{"line": "you 7"}, {"line": "i 5"}]


def test_the_first_sheet_of_a_workbook(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["title", "rate", "review"])
    book.active.append(["A paper", 7, None])
    book.create_sheet("other").append(["x"])
    book.save(tmp_path / "reviews.xlsx")
    assert read_file(source("xlsx"), tmp_path / "reviews.xlsx", "x") == [
        {"title": "A paper", "rate": 7, "review": None}
    ]


@pytest.mark.parametrize("mode", ["w:gz", "w", "zip"])
def test_selected_members_of_an_archive_are_rows(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    if mode == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in MEMBERS.items():
                archive.writestr(name, content)
    else:
        tar(path, MEMBERS, mode)
    rows = read_file(source("archive", members=PATTERN), path, "x")
    assert rows == [
        {"path": "aclImdb/train/neg/51_2.txt", "text": "Bad.", "label": "neg", "number": "51"},
        {
            "path": "aclImdb/train/pos/50_9.txt",
            "text": "Good.<br />Yes.",
            "label": "pos",
            "number": "50",
        },
    ]


def test_a_compressed_page_in_its_own_encoding(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar.gz", {"cache/0/body": gzip.compress("it\u2019s".encode("cp1252"))})
    pages = source("archive", members="body$", member_encoding="cp1252")
    assert read_file(pages, path, "x")[0]["text"] == "it\u2019s"


def test_the_digest_of_members_ignores_how_they_are_packed(tmp_path: Path) -> None:
    chosen = source("archive", members=PATTERN)
    packed = tar(tmp_path / "a.tar.gz", MEMBERS)
    again = dict(reversed(MEMBERS.items())) | {"repo-0123/new.py": b""}
    other = tar(tmp_path / "b.tar", again, "w")
    digest = members_digest(chosen, packed, "x")
    assert digest == members_digest(chosen, other, "x")
    changed = MEMBERS | {"repo-0123/aclImdb/train/neg/51_2.txt": b"Bad!"}
    assert digest != members_digest(chosen, tar(tmp_path / "c.tar", changed, "w"), "x")


def test_a_cut_archive_is_named(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar.gz", {"body": bytes(range(256)) * 400})
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="x: is not a whole archive"):
        members_digest(source("archive", members="body"), path, "x")
