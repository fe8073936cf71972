"""The private rows are opened, chosen and named in the private zone alone."""

import json
import pickle
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tblib import pickling_support

from connectors.interfaces.errors import (
    FinalError,
    InputError,
    PlaceError,
    PrivateInputError,
    WaspError,
)
from connectors.interfaces.rows import PrivateRef, RowsRef
from connectors.security.record_hashes import dataset_fingerprint, record_hash
from tasks.private.rows.marks import Marker, marks_of
from tasks.private.rows.quarantine import sealed, write_for_owner
from tasks.private.rows.rows import Identity, OpenedRows, PrivateZone, identify, open_rows
from tasks.private.rows.survey import Survey
from tests.support.data.private_zone import SECRET, zone

LABELS = ("a", "b")


def source(number: int, without: int | None = None) -> pd.DataFrame:
    rows = [(f"text number {n}", LABELS[n % 2]) for n in range(number) if n != without]
    return pd.DataFrame(rows, columns=["text", "label"]).assign(row=range(len(rows)))


def known(
    frame: pd.DataFrame, folder: Path, shown: Sequence[str] = (), name: str = "x", **where: Any
) -> Identity:
    return identify(zone(frame, folder), PrivateRef(name, RowsRef("p", **where)), LABELS, shown)


def opened(frame: pd.DataFrame, folder: Path, **where: Any) -> OpenedRows:
    private = PrivateRef("x", RowsRef("p", **where))
    return open_rows(zone(frame, folder), private, known(frame, folder, **where).fingerprint)


def taken(frame: pd.DataFrame, folder: Path, **where: Any) -> set[str]:
    return set(opened(frame, folder, **where).texts)


def test_with_a_declared_size_each_row_is_drawn_on_its_own(tmp_path: Path) -> None:
    """Removing any row changes nothing for the others: the promise holds for the whole source."""
    whole = taken(source(200), tmp_path, rows=60, of=200)
    assert 30 < len(whole) < 90
    for gone in range(200):
        without = taken(source(200, gone), tmp_path, rows=60, of=200)
        assert whole - without <= {f"text number {gone}"}
        assert without <= whole


def test_with_a_number_alone_exactly_so_many_are_taken_and_one_may_let_another_in(
    tmp_path: Path,
) -> None:
    assert len(taken(source(50), tmp_path)) == 50, "without a number all"
    whole = taken(source(200), tmp_path, rows=60)
    assert len(whole) == 60
    changes = [len(whole ^ taken(source(200, gone), tmp_path, rows=60)) for gone in range(200)]
    assert max(changes) == 2, "one out, one in: a replacement, for which the noise is calibrated"


def test_the_seed_chooses_and_the_order_of_the_file_does_not(tmp_path: Path) -> None:
    shuffled = source(200).sample(frac=1, random_state=3)
    assert taken(source(200), tmp_path, rows=60) == taken(shuffled, tmp_path, rows=60)
    assert taken(source(200), tmp_path, rows=60) != taken(source(200), tmp_path, rows=60, seed=1)


def test_a_source_is_named_by_all_its_rows_labels_and_persons(tmp_path: Path) -> None:
    whole, part = known(source(40), tmp_path), known(source(40), tmp_path, name="y", rows=5, seed=9)
    fewer, relabelled = (
        known(source(40, 3), tmp_path),
        known(source(40).assign(label="b"), tmp_path),
    )
    assert whole.fingerprint == part.fingerprint
    assert whole.fingerprint not in (fewer.fingerprint, relabelled.fingerprint)
    assert whole.records == relabelled.records, "the same texts, one budget"
    assert len(set(whole.records) & set(fewer.records)) == 39
    mine, moved = (
        known(frame, tmp_path, person="person")
        for frame in (whose(40), whose(40).assign(person="one"))
    )
    assert opened(whose(40), tmp_path, person="person").persons == tuple(
        f"patient {n // 4}" for n in range(40)
    )
    assert mine.fingerprint != moved.fingerprint
    assert mine.records == moved.records


def test_rows_in_memory_show_nothing_and_cannot_be_stored(tmp_path: Path) -> None:
    rows = opened(source(3), tmp_path)
    assert "text number" not in f"{rows} {rows!r}"
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(rows)


def test_a_reference_does_not_print_its_place() -> None:
    assert "secret-ward" not in repr(PrivateRef("x", RowsRef("/secret-ward/rows.csv")))


def test_rows_that_changed_since_they_were_identified_are_not_opened(tmp_path: Path) -> None:
    private, name = PrivateRef("x", RowsRef("p")), known(source(20), tmp_path).fingerprint
    for changed in (source(21), source(20, without=4), source(20).assign(label="b")):
        with pytest.raises(PrivateInputError, match="PRIVATE-CHANGED"):
            open_rows(zone(changed, tmp_path), private, name)
    shuffled = source(20).sample(frac=1, random_state=1)
    assert len(open_rows(zone(shuffled, tmp_path), private, name).texts) == 20


def refused(error: Exception, folder: Path) -> WaspError:
    """Return what leaves the zone when reading its rows fails."""

    def broken(_: RowsRef) -> pd.DataFrame:
        raise error

    location = PrivateZone(
        broken, partial(record_hash, SECRET), partial(dataset_fingerprint, SECRET), folder
    )
    with pytest.raises(WaspError) as raised:
        identify(location, PrivateRef("x", RowsRef("p")), LABELS, [])
    return raised.value


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("no column 'text'. Columns: 'my secret illness'"), "READ"),
        (ValueError("my secret illness"), "STEP"),
    ],
)
def test_what_a_reader_says_goes_to_the_owner_even_when_it_cannot_be_written_down(
    tmp_path: Path, error: Exception, code: str
) -> None:
    (tmp_path / "full").write_text("a file where the folder should be")
    for folder in (tmp_path / "problems", tmp_path / "full"):
        raised = refused(error, folder)
        assert isinstance(raised, PrivateInputError)
        assert f"PRIVATE-{code if folder.is_dir() else 'STEP'}" in str(raised)
        assert "illness" not in "".join(traceback.format_exception(raised))
        assert folder.is_file() or "illness" in raised.details.read_text()


def test_that_a_source_does_not_exist_is_said_openly(tmp_path: Path) -> None:
    assert "does not exist" in str(refused(PlaceError("rows.csv does not exist"), tmp_path))


def reasons(folder: Path, name: str = "x") -> list[tuple[object, str]]:
    """Return the row and reason of every problem that the owner of the rows is shown."""
    listed = json.loads((folder / f"{name}.json").read_text())["problems"]
    return [(problem.get("row"), problem["reason"]) for problem in listed]


@pytest.mark.parametrize("public", ["text number 3", "Text  NUMBER 3", "\u03aa\u0301 text"])
def test_a_private_row_among_the_public_texts_is_shown_to_its_owner_alone(
    tmp_path: Path, public: str
) -> None:
    rows = pd.concat(
        [source(6), pd.DataFrame({"text": ["\u0390 text"], "label": ["a"], "row": [6]})]
    )
    alone = known(rows, tmp_path, ["another text"])
    assert reasons(tmp_path) == []
    assert known(rows, tmp_path, ["another text", public]) == alone
    assert [reason for _, reason in reasons(tmp_path)] == ["the same text is a test or public row"]


ODD: tuple[tuple[str, dict[str, object], str], ...] = (
    ("null text", {"text": None}, "the text is missing or cannot be read"),
    ("empty text", {"text": " \n"}, "the text is empty"),
    ("null label", {"label": None}, "the label is empty"),
    ("empty label", {"label": ""}, "the label is empty"),
    ("null person", {"person": None}, "the person is empty"),
    ("empty person", {"person": "  "}, "the person is empty"),
)


@pytest.mark.parametrize(
    ("change", "reason"), [case[1:] for case in ODD], ids=[case[0] for case in ODD]
)
@pytest.mark.parametrize(
    "selection", [{}, {"rows": 6}, {"rows": 6, "of": 12}, {"rows": 6, "public": True}]
)
def test_an_unusable_row_votes_for_nobody_and_its_owner_is_shown_where(
    tmp_path: Path, change: dict[str, object], reason: str, selection: dict[str, int]
) -> None:
    frame = whose(12).astype(object)
    frame.loc[5, list(change)] = list(change.values())
    rows = opened(frame, tmp_path, person="person", **selection)
    assert reasons(tmp_path) == [(5, reason)]
    listed = json.loads((tmp_path / "x.json").read_text())
    assert "counted from 0" in listed["rows"]
    assert listed["counts"] == {reason: 1}
    others = opened(whose(12).drop(index=5), tmp_path, person="person", **selection)
    assert (rows.texts, rows.labels, rows.persons) == (others.texts, others.labels, others.persons)


def test_a_row_of_an_unknown_class_is_left_out_where_classes_matter(tmp_path: Path) -> None:
    frame = source(6)
    frame.loc[1, "label"] = "no class of the task"
    rows = opened(frame, tmp_path)
    assert [row for row, _ in reasons(tmp_path)] == [1]
    assert len(rows.texts) == 6
    assert rows.of(LABELS).texts == (*rows.texts[:1], *rows.texts[2:])


def test_a_source_without_rows_has_an_identity_of_its_own(tmp_path: Path) -> None:
    nothing = source(0).astype({"text": "str", "label": "str"})
    names = []
    for name in ("x", "y"):
        for selection in ({}, {"rows": 5}, {"rows": 5, "of": 9}, {"rows": 5, "public": True}):
            result = known(nothing, tmp_path, name=name, **selection)
            assert opened(nothing, tmp_path, **selection).texts == result.records == ()
            names.append(result.fingerprint)
    assert len(set(names)) == 2, "two datasets that are empty today are not one"


def test_the_owner_is_shown_persons_that_differ_in_case_or_white_space_only(tmp_path: Path) -> None:
    frame = whose(12)
    frame.loc[[1, 2], "person"] = "Patient  0"
    known(frame, tmp_path, person="person")
    assert reasons(tmp_path) == [
        (1, "the person is written differently in row 0, so the two count as different people")
    ]


def test_persons_are_the_same_in_tables_that_store_numbers_differently(tmp_path: Path) -> None:
    marker = Marker(lambda kind, value: f"{kind} {value}", lambda _: ("here",))
    private = PrivateRef("x", RowsRef("p", person="person"))
    result = [
        marks_of(marker, private, source(2).assign(person=persons), {}).persons
        for persons in (["7", "8"], ["7.0", "8.0"], [" 7", "8.00"])
    ]
    assert result == [("person 7", "person 8")] * 3


def whose(number: int) -> pd.DataFrame:
    return source(number).assign(person=[f"patient {n // 4}" for n in range(number)])


def unequal(number: int) -> pd.DataFrame:
    """Return rows of which three in ten are of class b."""
    frame = source(number)
    return frame.assign(
        label=["b" if int(text.split()[-1]) % 10 < 3 else "a" for text in frame["text"]]
    )


def drawn(frame: pd.DataFrame, folder: Path, rows: int, seed: int = 0) -> list[tuple[str, str]]:
    result = opened(frame, folder, rows=rows, seed=seed, public=True)
    return sorted(zip(result.labels, result.texts, strict=True))


@pytest.mark.parametrize(
    ("rows", "of_b"), [(100, 30), (10, 3), (7, 2), (1, 0), (199, 60), (200, 60)]
)
def test_of_public_rows_exactly_so_many_are_drawn_each_class_in_its_proportion(
    tmp_path: Path, rows: int, of_b: int
) -> None:
    for seed in range(5):
        labels = [label for label, _ in drawn(unequal(200), tmp_path, rows, seed)]
        assert (len(labels), labels.count("b")) == (rows, of_b)


def test_public_rows_are_drawn_by_seed_and_content_alone(tmp_path: Path) -> None:
    shuffled = unequal(200).sample(frac=1, random_state=3)
    assert drawn(unequal(200), tmp_path, 60) == drawn(shuffled, tmp_path, 60)
    assert len({str(drawn(unequal(200), tmp_path, 60, seed)) for seed in range(5)}) == 5


@pytest.mark.parametrize("public", [False, True])
def test_too_few_rows_are_all_used_and_only_their_owner_is_shown_the_number(
    tmp_path: Path, public: bool
) -> None:
    assert len(taken(unequal(20), tmp_path, rows=21, public=public)) == 20
    assert reasons(tmp_path) == [(None, "private.rows is 21, the source has 20 rows; all are used")]


def test_a_public_draw_is_another_choice_than_a_private_one_in_every_key() -> None:
    choices = [
        RowsRef("p", rows=60, **more).choice
        for more in ({}, {"of": 100}, {"public": True}, {"seed": 1})
    ]
    assert len({str(choice) for choice in choices}) == 4
    assert [RowsRef("p", rows=60, public=public).lets_rows_in for public in (False, True)] == [
        True,
        False,
    ]


# --- what leaves the private zone when something goes wrong in it: a code, on no path the words of a row
ROW = "zqxplanted quokka 7731"


def embed(kind: str, folder: Path) -> None:
    with sealed(folder):
        try:
            raise ValueError(f"cannot encode {ROW!r}")
        except ValueError as error:
            if kind == "unknown":
                raise
            raise FinalError("the embedder failed") from (error if kind == "caused" else None)


def fail(kind: str, folder: Path) -> WaspError:
    with pytest.raises(WaspError) as caught:
        embed(kind, folder)
    return caught.value


@pytest.mark.parametrize("kind", ["unknown", "caused", "hidden"])
def test_an_error_travels_to_another_process_without_the_errors_before_it(
    kind: str, tmp_path: Path
) -> None:
    error = fail(kind, tmp_path)
    assert isinstance(error, PrivateInputError if kind == "unknown" else FinalError)
    assert not isinstance(error, PrivateInputError) or ROW in error.details.read_text(), (
        "for the owner alone"
    )
    pickling_support.install()  # what Dask does: causes and contexts are pickled as well
    sent = pickle.dumps(error)
    assert ROW.encode() not in sent
    assert str(pickle.loads(sent)) == str(error)
    assert ROW not in "".join(traceback.format_exception(error, chain=True))


def test_what_is_written_for_the_owner_is_readable_for_the_owner_only(tmp_path: Path) -> None:
    write_for_owner(tmp_path / "zone" / "problems.json", "a private passage")
    assert (tmp_path / "zone").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "zone" / "problems.json").stat().st_mode & 0o777 == 0o600


# --- the description of private records for their owner
@pytest.mark.parametrize(
    ("rows", "number"), [(0, 1), (7, 7), (99, 90), (120, 100), (1000, 1000), (4999, 4000)]
)
def test_the_declared_number_is_rounded_down(rows: int, number: int) -> None:
    assert Survey(rows, {}, "en").declared_rows == number


def test_its_repr_shows_no_number() -> None:
    assert "17" not in repr(Survey(17, {"secret": 17}, "en"))
