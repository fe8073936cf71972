import gzip
import json
import re
import sqlite3
import time
import unicodedata
from dataclasses import replace

import fsspec
import pandas as pd
import pytest
import yaml

from connectors.interfaces.errors import InputError, NoRowsError, PlaceError
from connectors.interfaces.rows import RowsRef
from connectors.interfaces.text_forms import normal_form, normalizable
from connectors.rows.reader import check_public, read_rows
from connectors.security.record_hashes import record_hash
from tasks.writing.vocabulary import plain_form
from tests.support.paths import ROOT

SECRET = "my salary is 91234 euros"


def frame(count: int = 4) -> pd.DataFrame:
    texts = [f"text {i}, with a comma and a 'quote'" for i in range(count)]
    return pd.DataFrame(
        {"body": texts, "kind": ["a", "b"] * (count // 2), "stars": 5.0, "user": range(count)}
    )


def where(path, **changes) -> RowsRef:
    return replace(RowsRef(str(path), text="body", label="kind", person="user"), **changes)


def test_plain_text_has_no_case_and_no_punctuation(tmp_path):
    rows = pd.DataFrame(
        {"text": ["Mr. Smith's HbA1c: 7.2%!", "fine", None], "label": ["A.b", "c", "d"]}
    )
    rows.to_parquet(tmp_path / "rows.parquet")
    read = read_rows(RowsRef(str(tmp_path / "rows.parquet"), plain_text=True))
    assert read["text"].tolist()[:2] == ["mr smith s hba1c 7 2", "fine"]
    assert read["text"].isna().tolist() == [False, False, True]
    assert read["label"].tolist() == ["A.b", "c", "d"]
    assert RowsRef("rows.csv", plain_text=True).choice != RowsRef("rows.csv").choice


def save(table: pd.DataFrame, path) -> None:
    ending = path.name.removesuffix(".gz").rsplit(".", 1)[-1]
    if ending == "parquet":
        table.to_parquet(path)
    elif ending in ("csv", "tsv"):
        table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    else:
        table.to_json(path, orient="records", lines=ending != "json", force_ascii=False)


class TestClassesOfCodes:
    """Diagnoses are codes; a task has classes. Their first characters decide which codes make a class."""

    CLASSES = (("heart", ("10:I", "9:41")), ("stroke", ("10:I6",)), ("lungs", ("10:J",)))

    @pytest.mark.parametrize(
        ("codes", "classes", "labels"),
        [
            (
                ["10:I21", "10:I63.9", "9:410", "10:J18", "10:K35", "41", None, " 10:J45 "],
                CLASSES,
                {0: "heart", 1: "stroke", 2: "heart", 3: "lungs", 7: "lungs"},
            ),
            (
                ["9:4280", "10:I50.9", "10:I5", "9:42", "K35", "*", None, " ", "10:I51"],
                (("other", ("*", "10:I51")), ("failure", ("9:428", "10:I50"))),
                {0: "failure", 1: "failure"} | dict.fromkeys((2, 3, 4, 5, 8), "other"),
            ),
        ],
        ids=["rows of no class are left out", "a star is all other codes but not a missing one"],
    )
    def test_the_longest_beginning_of_a_code_decides(self, tmp_path, codes, classes, labels):
        pd.DataFrame({"body": map("note {}".format, range(len(codes))), "kind": codes}).to_parquet(
            tmp_path / "n.parquet"
        )
        rows = read_rows(RowsRef(str(tmp_path / "n.parquet"), "body", "kind", classes=classes))
        assert dict(zip(rows["row"], rows["label"], strict=True)) == labels
        assert rows["text"].tolist() == [f"note {row}" for row in labels]

    def test_any_heart_failure_code_of_a_stay_makes_its_class(self, tmp_path):
        """Nagesh et al. 2025, appendix B.1.1: a record whose billing codes include 428.x or I50.x."""
        with sqlite3.connect(tmp_path / "mimic.db") as db:
            db.execute("create table discharge (note_id text, subject_id int, hadm_id int, text)")
            db.execute(
                "create table diagnoses_icd (hadm_id int, seq_num int, icd_version int, icd_code)"
            )
            notes = [
                ("a", 1, 1, "first"),
                ("b", 1, 2, "second"),
                ("c", 2, 3, "third"),
                ("d", 3, 4, "fourth"),
            ]
            db.executemany("insert into discharge values (?, ?, ?, ?)", notes)
            codes = [
                (1, 1, 9, "41071"),
                (1, 2, 9, "4280"),
                (2, 1, 10, "A419"),
                (2, 7, 10, "I5020"),
                (3, 1, 10, "428"),
            ]
            db.executemany(
                "insert into diagnoses_icd values (?, ?, ?, ?)", [*codes, (3, 2, 9, "I509")]
            )
        shipped = (ROOT / "deployments/configs/papers/dp_kps.yaml").read_text()
        (query,) = re.findall(r"#   (SELECT .*?)\n  # [^ ]", shipped, re.DOTALL)
        values = yaml.safe_load(shipped)["settings"]["dp_kps_mimic"]["private"]["classes"]
        classes = tuple((name, tuple(prefixes)) for name, prefixes in values.items())
        where = RowsRef(
            f"sqlite:///{tmp_path}/mimic.db",
            label="code",
            query=query.replace("\n  #", "\n"),
            classes=classes,
        )
        rows = read_rows(where)
        assert dict(zip(rows["text"], rows["label"], strict=True)) == {
            "first": "heart_failure", "second": "heart_failure", "third": "other",
        }  # fmt: skip

    def test_a_rule_that_fits_no_row_is_reported_without_quoting_one(self, tmp_path):
        pd.DataFrame({"body": [SECRET], "kind": ["S72"]}).to_parquet(tmp_path / "notes.parquet")
        with pytest.raises(InputError, match="no row whose 'kind'") as refusal:
            read_rows(
                RowsRef(str(tmp_path / "notes.parquet"), "body", "kind", classes=self.CLASSES)
            )
        assert "S72" not in str(refusal.value)
        assert SECRET not in str(refusal.value)


CELLS = [
    ("r.csv", b"text,label\nNA,null\nNone,nan\n", ["NA", "None"], ["null", "nan"]),
    (
        "r.csv",
        b'\xef\xbb\xbftext,label\r\n"two\nlines",a\r\n\r\nx,b\r\n',
        ["two\nlines", "x"],
        ["a", "b"],
    ),
    ("r.csv", b"text;label\rone;a\rtwo;b\r", ["one", "two"], ["a", "b"]),
    ("r.csv", b'text;label\n"a, b; c";x\nd, e;y\n', ["a, b; c", "d, e"], ["x", "y"]),
    ("r.csv", b'text\tlabel\n"a, b\t c"\tx\nd, e\ty\n', ["a, b\t c", "d, e"], ["x", "y"]),
    ("r.csv", b'text|label\n"a, b| c"|x\nd, e|y\n', ["a, b| c", "d, e"], ["x", "y"]),
    ("r.jsonl", b'{"text": "\\ud83d x", "label": "a"}\n', ["\ufffd x"], ["a"]),
    (
        "r.jsonl",
        b'{"text": 1, "label": 5.0}\n{"text": "y", "label": true}\n',
        ["1", "y"],
        ["5", "true"],
    ),
]


class TestKinds:
    @pytest.mark.parametrize(
        "name", ["r.csv", "r.tsv", "r.jsonl", "r.ndjson", "r.json", "r.parquet", "r.csv.gz"]
    )
    def test_every_kind_of_file_gives_the_same_rows(self, tmp_path, name):
        save(frame(), tmp_path / name)
        rows = read_rows(where(tmp_path / name))
        assert list(rows.columns) == ["row", "text", "label", "person"]
        assert rows["row"].dtype == "int64"
        assert rows["row"].tolist() == [0, 1, 2, 3]
        assert rows["text"].tolist() == frame()["body"].tolist()
        assert rows["label"].tolist() == ["a", "b", "a", "b"]
        assert rows["person"].tolist() == ["0", "1", "2", "3"]
        assert all(isinstance(v, str) for name in rows.columns[1:] for v in rows[name])

    @pytest.mark.parametrize(("name", "content", "texts", "labels"), CELLS)
    def test_cells_are_read_as_they_are_written(self, tmp_path, name, content, texts, labels):
        (tmp_path / name).write_bytes(content)
        rows = read_rows(RowsRef(str(tmp_path / name)))
        assert (rows["text"].tolist(), rows["label"].tolist()) == (texts, labels)

    def test_a_missing_key_is_null_and_makes_no_float_of_a_number(self, tmp_path):
        table = pd.DataFrame(
            {"text": ["x", "y", "z"], "label": pd.array([1, None, 3], dtype="Int64")}
        )
        table.to_parquet(tmp_path / "r.parquet")
        assert read_rows(RowsRef(str(tmp_path / "r.parquet")))["label"].fillna("null").tolist() == [
            "1",
            "null",
            "3",
        ]
        (tmp_path / "r.jsonl").write_text(
            '{"body": "x", "kind": "a"}\n\n{"body": null, "kind": "b"}\n'
        )
        rows = read_rows(where(tmp_path / "r.jsonl", person=None))
        assert rows["text"].isna().tolist() == [False, True]

    def test_a_folder_is_read_in_the_order_of_its_names_without_hidden_files(self, tmp_path):
        (tmp_path / "sub").mkdir()
        save(frame().iloc[2:], tmp_path / "sub" / "c.jsonl")
        save(frame().iloc[:2], tmp_path / "a.csv")
        (tmp_path / "_a.csv.json").write_text("{}")
        (tmp_path / ".hidden.csv").write_text("x")
        (tmp_path / "notes.md").write_text("x")
        rows = read_rows(where(tmp_path))
        assert rows["text"].tolist() == frame()["body"].tolist()
        assert rows["row"].tolist() == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        "address", ["memory://bucket/in/r.csv", "memory://bucket/in", "r.csv", "./r.csv"]
    )
    def test_any_fsspec_address_and_relative_path_works(self, tmp_path, monkeypatch, address):
        monkeypatch.chdir(tmp_path)
        for file in ("memory://bucket/in/r.csv", "r.csv"):
            with fsspec.open(file, "wb") as opened:
                opened.write(frame().to_csv(index=False).encode())
        assert len(read_rows(where(address))) == 4


class TestSql:
    @pytest.fixture
    def address(self, tmp_path):
        with sqlite3.connect(tmp_path / "r.db") as database:
            frame().to_sql("rows", database, index=False)
        database.close()
        return f"sqlite:///{tmp_path / 'r.db'}"

    def test_a_query_gives_rows_or_what_the_database_says(self, address):
        rows = read_rows(
            where(
                address,
                query="SELECT body, kind, stars, user FROM rows WHERE user > 0 ORDER BY user",
            )
        )
        assert rows["person"].tolist() == ["1", "2", "3"]
        with pytest.raises(InputError, match="no such table: absent"):
            read_rows(where(address, query="SELECT * FROM absent"))

    def test_a_password_is_never_shown(self):
        for query in (None, "SELECT 1"):
            with pytest.raises(InputError) as caught:
                read_rows(where("postgresql+psycopg2://u:hunter2@localhost:1/db", query=query))
            assert "hunter2" not in str(caught.value)
            assert "u:***@localhost" in str(caught.value)

    def test_an_address_may_lie_in_a_variable(self, address, monkeypatch):
        with pytest.raises(
            InputError, match="env:DESK_ROWS: the environment variable DESK_ROWS is not set"
        ):
            read_rows(where("env:DESK_ROWS", query="SELECT * FROM rows"))
        monkeypatch.setenv("DESK_ROWS", address)
        assert len(read_rows(where("env:DESK_ROWS", query="SELECT * FROM rows"))) == 4


class TestOtherPlaces:
    def test_builtin_rows_are_read(self):
        rows = read_rows(RowsRef("builtin:support_desk/private.parquet"))
        assert len(rows) > 50
        assert rows["text"].str.len().min() > 0

    @pytest.mark.parametrize(
        ("address", "message"),
        [
            ("builtin:nothing/private.parquet", "does not exist"),
            ("builtin:../base.py", "comes with the package"),
            ("hf:imdb:test", "hf:imdb:test: removed in 0.3. Write .*hf://datasets/NAME/FILE"),
            ("nope://x/r.csv", "nope"),
            ("sqlite:///r.db", "'query'"),
        ],
    )
    def test_unknown_addresses_are_refused_with_what_to_write(self, address, message):
        with pytest.raises(InputError, match=message):
            read_rows(RowsRef(address))


def test_missing_public_rows_name_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("WASP_DATA", str(tmp_path))
    path = tmp_path / "banking10/train.parquet"
    with pytest.raises(InputError, match=r"does not exist\. Fetch it with: wasp data banking10$"):
        read_rows(RowsRef(str(path)))


PARQUET = frame().to_parquet()
ARCHIVE = gzip.compress(frame(100).to_csv(index=False).encode())
CONTENTS = [
    ("r.csv", None, "does not exist"),
    ("", None, "folder without data"),
    ("r.csv", "", "is empty"),
    ("r.jsonl", "", "is empty"),
    ("r.parquet", "", "is empty"),
    ("r.xls", "x", "Supported suffixes: .csv"),
    ("r.xlsx", SECRET, "is not a readable Excel file"),
    ("r.jsonl", json.dumps({"body": SECRET}) + f'\n\n{{"body": {SECRET}}}\n', "line 3: not JSON"),
    ("r.jsonl", f'{{"body": "x"}}\n"{SECRET}"\n', "line 2: contains a single value, not an object"),
    ("r.json", f'[{{"body": "{SECRET}"}},\n{{"body" 1}}]', "line 2: not JSON"),
    ("r.csv", f"body,kind\nx,a\n{SECRET},a,b\n", "line 3: has 3 fields, the first line has 2"),
    ("r.csv", f"body,kind\n{SECRET}\n", "line 2: has 1 field, the first line has 2"),
    ("r.csv", f'body,kind\n"{SECRET},a\n', "line 2: unexpected end of data"),
    ("r.csv", "body,body\nx,a\n", "'body' more than once"),
    ("r.csv", f"body,kind\n{SECRET},a\nGr".encode() + b"\xfc\xdfe,a\n", "line 3: not UTF-8.*iconv"),
    ("r.json", '[{"body": "x"}]', "no column 'kind'"),
    ("r.parquet", SECRET, "not a readable Parquet file"),
    ("r.csv.gz", ARCHIVE[: len(ARCHIVE) // 2], "cannot be read"),
    ("r.csv", frame(0).to_csv(index=False), "has no rows"),
    ("r.parquet", frame(0).to_parquet(), "has no rows"),
    ("r.parquet", PARQUET[: len(PARQUET) // 2], "not a readable Parquet file"),
    (
        "r.parquet",
        frame().assign(body=[["x"]] * 4).to_parquet(),
        "row 0, column 'body': contains a list, not text",
    ),
    ("r.jsonl", f'{{"body": "{SECRET}"}}\n'.encode() + b"\xff", "line 2: not UTF-8"),
]


class TestErrors:
    def refused(self, path, message, **changes):
        with pytest.raises(InputError, match=message) as caught:
            read_rows(where(path, **changes))
        assert str(path) in str(caught.value)
        for error in (caught.value, caught.value.__cause__, caught.value.__context__):
            assert SECRET not in repr(error)

    @pytest.mark.parametrize(("name", "content", "message"), CONTENTS)
    def test_a_faulty_file_is_refused_with_its_place_and_without_its_content(
        self, tmp_path, name, content, message
    ):
        if content is not None:
            (tmp_path / name).write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        self.refused(tmp_path / name, message)

    @pytest.mark.parametrize("name", ["r.csv", "r.jsonl", "r.parquet"])
    def test_a_missing_column_names_the_columns_and_the_nearest(self, tmp_path, name):
        save(frame(), tmp_path / name)
        message = (
            r"no column 'boddy'. Columns: 'body', 'kind', 'stars', 'user'. Did you mean 'body'\?"
        )
        self.refused(tmp_path / name, message, text="boddy")

    def test_a_file_of_a_folder_that_lacks_a_column_is_named(self, tmp_path):
        save(frame(), tmp_path / "a.csv")
        save(frame().drop(columns="kind"), tmp_path / "b.csv")
        self.refused(tmp_path, r"b\.csv has no column 'kind'")


class TestChoice:
    @pytest.fixture
    def path(self, tmp_path):
        save(frame(200), tmp_path / "r.csv")
        return tmp_path / "r.csv"

    def test_the_choice_does_not_depend_on_the_order_of_the_file(self, path, tmp_path):
        chosen = read_rows(where(path, rows=20, seed=3))
        save(frame(200).sample(frac=1, random_state=1), tmp_path / "other.parquet")
        other = read_rows(where(tmp_path / "other.parquet", rows=20, seed=3))
        assert sorted(other["text"]) == sorted(chosen["text"])
        assert len(chosen) == 20
        assert chosen["text"].tolist() == [frame(200)["body"][row] for row in chosen["row"]], (
            "numbers of the source"
        )

    def test_another_seed_chooses_others_and_every_row_has_its_chance(self, path):
        seen = set()
        first = set(read_rows(where(path, rows=40, seed=0))["row"])
        for seed in range(30):
            rows = read_rows(where(path, rows=40, seed=seed))["row"].tolist()
            assert rows == sorted(rows)
            seen |= set(rows)
        assert first != set(read_rows(where(path, rows=40, seed=1))["row"])
        # A given row is missed by 30 draws of 40 in 200 with probability 0.8^30 = 0.0012.
        assert len(seen) >= 195

    def test_more_rows_keep_the_fewer(self, path):
        few, more = (set(read_rows(where(path, rows=n))["row"]) for n in (10, 50))
        assert few < more

    def test_all_rows_may_be_requested_and_no_more(self, path):
        assert len(read_rows(where(path, rows=200))) == 200
        with pytest.raises(InputError, match="fewer than the 201 requested rows") as caught:
            read_rows(where(path, rows=201))
        assert "200" not in str(caught.value).replace(str(path), "")


class TestProblems:
    def test_every_problem_has_its_row_column_and_reason(self):
        rows = pd.DataFrame({"row": [0, 4, 5, 6, 9]})
        rows["text"] = pd.Series(["fine", " \n", None, "fine", "fine"], dtype="str")
        rows["label"] = pd.Series(["a", "a", "b", "A", None], dtype="str")
        with pytest.raises(InputError) as caught:
            check_public(where("test.csv"), rows, ["a", "b"])
        assert str(caught.value).splitlines()[1:] == [
            "  row 4, column 'body': is empty",
            "  row 5, column 'body': is null",
            "  row 6, column 'kind': unknown label 'A'; known labels: a, b.",
            "  row 9, column 'kind': is null",
        ]

    def test_a_row_of_nobody_is_a_problem_and_equal_rows_are_none(self):
        rows = pd.DataFrame(
            {"row": [0, 1], "text": ["x", "x"], "label": ["a", "a"], "person": ["", "p"]}
        )
        check_public(RowsRef("test.csv"), rows, ["a"])
        with pytest.raises(InputError, match="row 0, column 'who': is empty"):
            check_public(RowsRef("test.csv", person="who"), rows, ["a"])

    def test_public_problems_are_reported_five_at_a_time_with_the_column_of_the_file(self):
        rows = pd.DataFrame({"row": range(8), "text": ["x"] * 8, "label": ["c"] * 8})
        with pytest.raises(InputError) as caught:
            check_public(where("test.csv"), rows, ["a", "b"])
        message = str(caught.value)
        assert message.startswith("test.csv has 8 problem(s)")
        assert message.count("unknown label 'c'") == 5
        assert "row 4, column 'kind'" in message
        assert "and 3 more" in message


class TestNormalForm:
    def test_case_space_and_accents_do_not_matter_and_other_words_do(self):
        assert normal_form("  Straße\u00a0Café\n") == normal_form("STRASSE Cafe\u0301")
        assert normal_form("A\t b") == "a b"
        assert normal_form("my card") != normal_form("my cards")
        assert normal_form("resume") != normal_form("résumé")

    def test_the_form_is_its_own_form(self):
        for text in ("İstanbul", "ŉ", "ΐ", "ﬁne  Œuvre", "\u0345\u0301"):
            assert normal_form(normal_form(text)) == normal_form(text)


class TestLenientReading:
    """An invalid line or cell of private rows is a row without text: an error would reveal that it exists."""

    @pytest.mark.parametrize(
        ("name", "content", "text"),
        [
            ("r.csv", b"text,label\ncaf\xe9,a\n", "café"),
            ("r.csv", b"text,label\nundefined \x81,a\n", "undefined \ufffd"),
            ("r.jsonl", b'{"text": "caf\xe9", "label": "a"}\n', "café"),
            ("r.jsonl", b'{"text": "caf\\udce9", "label": "a"}\n', "caf\ufffd"),
        ],
    )
    def test_bytes_that_are_not_utf8_are_windows_1252_and_surrogates_are_replaced(
        self, tmp_path, name, content, text
    ):
        (tmp_path / name).write_bytes(content)
        assert read_rows(RowsRef(str(tmp_path / name), lenient=True))["text"].tolist() == [text]

    @pytest.mark.parametrize("name", ["r.csv", "r.json"])
    def test_no_row_changes_how_the_bytes_of_another_one_are_read(self, tmp_path, name):
        rows = [
            "naïve".encode(),
            "naïve".encode("cp1252"),
            b"plain",
            "“quoted”".encode("cp1252"),
            b"cut \xe4\xe4",
        ]
        for count in range(1, len(rows) + 1):
            if name == "r.csv":
                content = b"text,label\n" + b"".join(b'"%s",a\n' % row for row in rows[:count])
            else:
                content = (
                    b"["
                    + b",".join(b'{"text": "%s", "label": "a"}' % row for row in rows[:count])
                    + b"]"
                )
            (tmp_path / name).write_bytes(content)
            read = read_rows(RowsRef(str(tmp_path / name), lenient=True))["text"].tolist()
            assert read == ["naïve", "naïve", "plain", "“quoted”", "cut ää"][:count]

    def test_a_column_of_lists_is_a_fault_of_the_schema(self, tmp_path):
        pd.DataFrame({"text": [["a"], ["b"]], "label": ["a", "b"]}).to_parquet(
            tmp_path / "r.parquet"
        )
        with pytest.raises(InputError, match="contains list"):
            read_rows(RowsRef(str(tmp_path / "r.parquet"), lenient=True))

    def test_a_query_that_fails_on_a_row_returns_none_and_a_wrong_query_is_refused(self, tmp_path):
        with sqlite3.connect(tmp_path / "rows.db") as db:
            db.execute("create table notes (text, label, who)")
            db.executemany("insert into notes values (?, 'a', ?)", [("one", "p1"), ("two", "p2")])
        overflow = (
            "select text, label from notes "
            "where abs(case who when 'p2' then -9223372036854775808 else 1 end) > 0"
        )
        address = f"sqlite:///{tmp_path}/rows.db"
        with pytest.raises(PlaceError):
            read_rows(RowsRef(address, query=overflow))
        with pytest.raises(NoRowsError):
            read_rows(RowsRef(address, query=overflow, lenient=True))
        with pytest.raises(PlaceError, match="no such column"):
            read_rows(RowsRef(address, query="select text, colour from notes", lenient=True))


# --- normalising takes time linear in the length of a text, for any row
MARKS = "a" + "\u0315\u0300" * 200_000
"""Combining marks in the wrong order; sorting them takes minutes."""


@pytest.mark.parametrize(
    "form", [normal_form, plain_form, lambda text: record_hash(b"k" * 32, "", text)]
)
def test_a_row_of_combining_marks_takes_no_longer_than_others(form) -> None:
    started = time.process_time()
    form(MARKS)
    assert time.process_time() - started < 5


def test_only_long_runs_of_marks_are_changed() -> None:
    text = ("e\u0301" * 20 + "日本語 ") * 100
    assert normalizable(text) == text
    assert normalizable(MARKS[:2000]) == MARKS[:2000]
    changed = normalizable(MARKS)
    assert changed.replace("\u034f", "") == MARKS
    assert normalizable(changed) == changed
    assert len(unicodedata.normalize("NFC", changed)) <= len(changed)
