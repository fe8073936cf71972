"""The programs of the guide for FHIR and HL7 v2, as they are printed, on made-up messages."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.rows import RowsRef
from connectors.rows.reader import read_rows
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "guides" / "clinical_records.md"
PROGRAMS = dict(
    re.findall(r'^```python title="(\S+)"\n(.*?)^```$', PAGE.read_text("utf-8"), re.M | re.S)
)
NOTE = "Käme morgen wieder.\nSchmerz im Knie."


def rows_of(program: str, folder: Path, content: str, encoding: str = "utf-8") -> list[Any]:
    """Return what a program of the guide writes about a file, read as a run reads it, too."""
    (folder / program).write_text(PROGRAMS[program], encoding="utf-8")
    (folder / "export").write_bytes(content.encode(encoding))
    done = subprocess.run(
        [sys.executable, program, "export"], cwd=folder, capture_output=True, check=True
    )
    (folder / "notes.jsonl").write_bytes(done.stdout)
    rows = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    if rows:
        where = RowsRef(str(folder / "notes.jsonl"), text="note", label="kind", person="patient")
        assert read_rows(where)["text"].tolist() == [row["note"] for row in rows]
    return rows


def attachment(text: str, kind: str = "text/plain", charset: str = "") -> dict[str, str]:
    data = base64.b64encode(text.encode(charset or "utf-8")).decode()
    return {"contentType": f"{kind}; charset={charset}" if charset else kind, "data": data}


def document(*attachments: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {
        "resourceType": "DocumentReference",
        "status": "current",
        "type": {"coding": [{"code": "18842-5", "display": "Discharge summary"}]},
        "subject": {"reference": "Patient/7"},
        "date": "2024-03-05T10:00:00Z",
        "content": [{"attachment": part} for part in attachments],
    } | fields


def ndjson(*resources: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, resources)) + "\n\n"


def test_the_first_plain_text_of_a_document_is_its_note(tmp_path: Path) -> None:
    page = attachment("<p>page</p>", "text/html")
    latin = attachment(NOTE, charset="ISO-8859-1")
    far = {"contentType": "text/plain", "url": "Binary/12"}
    resources = ndjson(document(far, page, latin), document(page, far))
    (row,) = rows_of("notes_from_fhir.py", tmp_path, resources)
    assert row == {
        "note": NOTE,
        "kind": "Discharge summary",
        "patient": "7",
        "year": "2024",
    }


def test_a_report_has_attachments_or_a_conclusion(tmp_path: Path) -> None:
    report = {
        "resourceType": "DiagnosticReport",
        "status": "final",
        "code": {"text": "Chest X-ray"},
        "subject": {"reference": "https://server/fhir/Patient/9/_history/2"},
        "effectiveDateTime": "2023",
        "conclusion": "No effusion. ",
    }
    form = {"presentedForm": [attachment(NOTE)], "conclusion": "short"}
    rows = rows_of("notes_from_fhir.py", tmp_path, ndjson(report, report | form))
    assert [row["note"] for row in rows] == ["No effusion.", NOTE]
    assert [(row["patient"], row["year"], row["kind"]) for row in rows] == [
        ("9", "2023", "Chest X-ray")
    ] * 2


@pytest.mark.parametrize(
    ("fields", "patients"),
    [
        ({"status": "entered-in-error"}, []),
        ({"docStatus": "superseded"}, []),
        ({"subject": {"reference": "#p1"}}, [""]),
        ({"subject": {"reference": "urn:uuid:1-2"}}, ["urn:uuid:1-2"]),
        ({"date": "2024-03", "type": {}}, ["7"]),
    ],
)
def test_invalid_documents_and_contained_patients(
    tmp_path: Path, fields: dict[str, Any], patients: list[str]
) -> None:
    resources = ndjson(document(attachment(NOTE), **fields))
    rows = rows_of("notes_from_fhir.py", tmp_path, resources)
    assert [row["patient"] for row in rows] == patients
    assert all(row["year"] == "2024" for row in rows)


MESSAGE = [
    r"MSH|^~\&|LAB|HOSPITAL|||20240305||ORU^R01|1|P|2.5",
    "PID|1||4711^^^MR~99^^^SS||Made^Up",
    "OBR|1|||11502-2^Laboratory report^LN",
    r"OBX|1|FT|1^A||Pain in the knee.\.br\Worse at night \T\ in rain||||||F",
    "OBX|2|TX|1^B||Walks with a stick.~Sleeps well.||||||F",
    "OBX|3|TX|1^C||A mistake.||||||W",
    "OBX|4|NM|1^D||12.5||||||F",
    "OBR|2|||X1^Note",
    r"OBX|1|TX|2||Caf\XE9\ of the \H\ward\N\.||||||C",
    r"MSH|^~\&|LAB",
    "PID|1||4712^^^MR",
    "OBR|1|||X1",
    "OBX|1|TX|3||Second patient.",
]
READ = [
    (
        "Pain in the knee.\nWorse at night & in rain\nWalks with a stick.\nSleeps well.",
        "Laboratory report",
        "4711",
    ),
    ("Café of the ward.", "Note", "4711"),
    ("Second patient.", "X1", "4712"),
]


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"], ids=["CR", "LF", "CRLF"])
@pytest.mark.parametrize("frame", ["{}", "\x0b{}\x1c\r"], ids=["file", "MLLP"])
def test_pieces_become_one_note_whatever_ends_a_segment(
    tmp_path: Path, end: str, frame: str
) -> None:
    rows = rows_of("notes_from_hl7.py", tmp_path, frame.format(end.join(MESSAGE) + end))
    assert [(row["note"], row["kind"], row["patient"]) for row in rows] == READ


def test_a_line_feed_in_a_field_belongs_to_the_note(tmp_path: Path) -> None:
    broken = [*MESSAGE[:3], "OBX|1|TX|1||First line\nsecond line: 2|||||", "OBX|2|TX|1||Third."]
    (row,) = rows_of("notes_from_hl7.py", tmp_path, "\r".join(broken))
    assert row["note"] == "First line\nsecond line: 2\nThird."


def test_a_message_without_a_text_has_no_row(tmp_path: Path) -> None:
    assert rows_of("notes_from_hl7.py", tmp_path, "\r".join(MESSAGE[:3])) == []
