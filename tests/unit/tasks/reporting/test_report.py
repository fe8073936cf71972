"""The report of a run: one golden page, and what it must state or leave out in other runs."""

import base64
import hashlib
import html.parser
import json
import math
import re
import struct
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

from connectors.interfaces.models import Usage
from tasks.metrics.answer_counts import AnswerCounts
from tasks.metrics.usefulness import (
    ACCURACIES,
    ON_ROWS,
    Accuracy,
    Baseline,
    DiscriminatorTest,
    Usefulness,
)
from tasks.private.release import UnnoisedUse
from tasks.reporting import plots
from tasks.reporting import text as words
from tasks.reporting.report import render
from tasks.reporting.run_record import ClassShare, Scores, from_json, to_json
from tasks.reporting.text import verdict
from tasks.reporting.text_map import map_plot
from tests.support.data.reports import made_up_report, one_iteration
from tests.support.golden_pages import check_page
from tests.support.paths import ROOT

ROUND = {"iteration": 0, "attempt": 2, "parties": 2, "dropped": {"west": "did not answer in time"}}
ROUND |= {"bytes": {"down": 123456, "between": 789, "up": 4321}, "of_one": {}}
HELD, LOST = ({"colluding": n, "epsilon": e, "promised": n == 0} for n, e in ((0, 2.9), (2, 5.7)))
PARTIES = {
    "names": ["north", "south", "west"],
    "number": 3,
    "minimum": 2,
    "colluding": 1,
    "share": 2.5,
}
PARTIES |= {"guarantees": [HELD, LOST], "rounds": [ROUND]}
BASE = Baseline("linear", Accuracy(210, 300, 120), Accuracy(246, 300, 120), Accuracy(216, 300, 120))
FULL = Usefulness(
    Accuracy(250, 300, 600), 1 / 6, "linear", BASE, "", Accuracy(260, 300, 600), Accuracy(225, 300)
)
WITH_CORPUS = replace(FULL, baseline=replace(BASE, public=Accuracy(222, 300, 120)))
EVERY = ["chance", *(title.format("the noisy release") for title in reversed(ACCURACIES.values()))]
ALL = [name for name in EVERY if name != ACCURACIES["public_accuracy"]]
NEW = "new classifier of the exported texts"
BARE = {"fid": None, "fid_equal": None, "probe_accuracy": None, "epsilon": 4.0}
ESTIMATED = Usage(40, 9000, 5200, 0.5, estimated_calls=30, estimated_dollars=0.375)
PAGES = {
    "without_noise": {
        **{
            "epsilon": math.inf,
            "epsilon_exact": math.inf,
            "sigma": 0.0,
            "epsilon_spent": None,
            "releases": 1,
        },
        "iterations": (one_iteration(0, epsilon=None), one_iteration(1, epsilon=None)),
    },
    "unnoised_numbers": {
        "touched": (UnnoisedUse("an audit", "runs/x/private_metrics.json", "its reason"),),
    },
    "unmeasured": {
        "scores": None,
        "map": None,
        "iterations": (one_iteration(0, **BARE), one_iteration(1, **BARE)),
    },
    "failed": {
        **{"iterations": (), "scores": None, "map": None, "state": "FAILED"},
        **{"epsilon_spent": 0.0, "releases": 0, "n_synthetic": 0},
    },
    "reused": {
        **{"epsilon": 1.0, "epsilon_exact": 1.0, "epsilon_spent": 1.0, "epsilon_added": 0.854},
        **{"releases": 3, "releases_charged": 2, "n_synthetic": 5400, "warnings": ("a warning",)},
    },
    "parties": {"parties": PARTIES},
    "answers": {
        "answers": {"gpt-4o": AnswerCounts(900, 30, 1000, 12, {"format": 60, "refusal": 40})}
    },
    "everything": {
        **{
            "degraded": ("x",),
            "balance": (ClassShare("a & b", 0.4, 0.25, None),),
            "usefulness": FULL,
        },
        **{"discriminator": DiscriminatorTest(Accuracy(60, 100)), "stubs": ("clerk", "novelist")},
        "iterations": (one_iteration(0, usage={"gpt-4o": ESTIMATED}),),
    },
}
"""Other runs by what is special about them."""
VOID = {"meta", "br", "link", "img", "hr", "input", "path", "use", "rect", "line", "circle"}


class Page(html.parser.HTMLParser):
    """Reads a page and complains about elements that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.attributes, self.tags, self.said = [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.said += data + " "


@pytest.fixture(scope="module")
def page():
    return render(made_up_report())


def test_the_page_reads_as_before_and_is_well_formed(page):
    check_page("report", page)
    read = Page(page)
    assert read.open == []
    names = [value for _, name, value in read.attributes if name == "id"]
    links = [value[1:] for tag, name, value in read.attributes if tag == "a" and name == "href"]
    assert len(names) == len(set(names))
    assert len(links) == 10
    assert set(links) <= set(names)
    assert read.tags.count("table") == read.tags.count("caption") > 5
    alts = [value for tag, name, value in read.attributes if tag == "div" and name == "aria-label"]
    assert read.tags.count("svg") == read.tags.count("figure") == len(alts) == 4
    references = [
        value
        for _, name, value in read.attributes
        if name in ("src", "href", "xlink:href", "action")
    ]
    assert references
    assert all(value.startswith("#") for value in references), "the page loads nothing from outside"
    assert "script" not in read.tags
    assert not re.search(r"@import|url\((?!#)", page)


def test_a_page_runs_its_own_script_and_no_other(page):
    shown = render(
        made_up_report(),
        pd.DataFrame({"text": list("xyz"), "label": "a", "plm": "clerk", "iteration": 0}),
    )
    script = re.search(r"<script>(.*?)</script>", shown, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    for text in (page, shown):
        assert "default-src 'none'; base-uri 'none'; form-action 'none'" in text
        assert f"script-src 'sha256-{digest}'" in text


def test_equal_reports_give_equal_pages_in_another_process_too(page):
    code = "from tests.support.data.reports import made_up_report; "
    code += "from tasks.reporting.report import render; import sys; "
    code += "assert not {'matplotlib', 'jinja2', 'pydantic'} & set(sys.modules); "
    code += "sys.stdout.write(render(made_up_report()))"
    again = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert again.stdout == page


def test_text_of_a_model_stays_text():
    evil = '<script>alert(1)</script> $x_1$ & "quoted"'
    scores = Scores(0.5, 0.5, (evil, "b"), {evil: {"f1": 0.5}}, ((1, 2), (3, 4)))
    iteration = one_iteration(0, new={evil: 3}, weights={evil: 1.0}, failures={evil: {evil: 1}})
    shown = render(
        made_up_report(scores=scores, iterations=(iteration,), degraded=(evil,), task=evil)
    )
    assert "script" not in Page(shown).tags
    assert "<script" not in shown
    assert "<script>alert(1)</script>" in Page(shown).said


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_another_run_says_what_is_special_about_it(page, name):
    report = made_up_report(**PAGES[name])
    shown = render(report)
    assert Page(shown).open == []
    check_page(f"report_{name}", shown, page)
    stored = json.loads(json.dumps(to_json(report)))
    assert from_json(stored) == report
    assert render(from_json(stored)) == shown


def test_of_many_classes_the_worst_are_shown_and_the_others_folded():
    names = [f"intent {number}" for number in range(77)]
    per_class = {
        name: {"precision": 0.5, "recall": 0.5, "f1": 1 - k / 100, "rows": 9.0}
        for k, name in enumerate(names)
    }
    scores = Scores(0.5, 0.5, tuple(names), per_class)
    rows = pd.DataFrame(
        {"text": [f"text {name}" for name in names], "label": names, "plm": "a", "iteration": 0}
    )
    page = render(made_up_report(scores=scores, map=None), rows)
    table = page[page.index("Per class, on test rows") :]
    shown, folded = (
        table[: table.index("<details>")],
        table[table.index("<details>") : table.index("</details>")],
    )
    assert re.findall(r"intent \d+", shown) == [f"intent {number}" for number in range(76, 66, -1)]
    assert re.findall(r"intent \d+", folded) == names[:67]
    assert page.count("67 further classes") == 2, "and the table of texts by class"


def test_classes_without_test_rows_are_not_measured_and_not_the_worst():
    names = [f"intent {number}" for number in range(77)]
    none = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "rows": 0}
    some = {"precision": 0.9, "recall": 0.8, "f1": 0.7, "rows": 2}
    per_class = {name: none if k % 2 else some for k, name in enumerate(names)}
    page = render(made_up_report(scores=Scores(0.5, 0.5, tuple(names), per_class), map=None))
    table = page[page.index("Per class, on test rows") :]
    shown, folded = (
        table[: table.index("<details>")],
        table[table.index("<details>") : table.index("</details>")],
    )
    assert re.findall(r"intent (\d+)", shown) == [str(number) for number in range(0, 20, 2)]
    row = folded[folded.index("intent 75<") :].partition("</tr>")[0]
    assert (row.count("not measured"), "0.000" in row) == (3, False)


def test_cells_of_a_confusion_matrix_without_rows_are_not_drawn_one_by_one():
    size = 150
    names = tuple(f"intent {number}" for number in range(size))
    confusion = [[int(row == column) for column in range(size)] for row in range(size)]
    scores = Scores(0.5, 0.5, names, {}, confusion)
    drawn = plots.confusion_plot(made_up_report(scores=scores)).decode()
    assert size < drawn.count("<path") < 2 * size


def test_what_was_not_measured_is_not_drawn():
    report = made_up_report(**PAGES["unmeasured"])
    for plot in (plots.fid_accuracy_plot, map_plot, plots.confusion_plot, plots.balance_plot):
        assert plot(report) is None, plot
    assert "svg" not in Page(render(made_up_report(**PAGES["failed"]))).tags


@pytest.mark.parametrize(
    ("loss", "sure"), [(0.0, 0.5), (1.0, 0.7310586), (4.0, 0.9820138), (8.0, 0.9996646)]
)
def test_the_certainty_of_an_attacker_is_what_bayes_says(loss, sure):
    assert words.certainty(loss) == pytest.approx(sure, abs=1e-6)
    assert words.certainty(loss, 0.01) == pytest.approx(
        math.exp(loss) * 0.01 / (math.exp(loss) * 0.01 + 0.99)
    )


@pytest.mark.parametrize(
    ("loss", "step"), [(0.99, "strong"), (1.0, "moderate"), (4.0, "moderate"), (4.1, "weak")]
)
def test_the_first_screen_states_unit_certainty_and_strength(loss, step):
    page = render(made_up_report(protects="person", epsilon_spent=loss))
    head = " ".join(Page(page.split("</header>")[0] + "</header></body></html>").said.split())
    assert "Protection of each person: an attacker with a 50 % belief" in head
    assert f"becomes at most {100 * words.certainty(loss):.1f} % sure" in head
    assert "per person at delta 1e-05" in head
    assert re.findall(r'class="here"[^>]*>(\w+)', page) == [step]


def test_the_promise_to_a_party_depends_on_how_many_may_collude():
    report, alone = (made_up_report(parties=PARTIES | {"colluding": number}) for number in (1, 0))
    assert any("even together with 1 of the parties" in line for line in words.promise(report))
    assert any("not against another party" in line for line in words.promise(alone))
    assert any("made-up votes" in line for line in words.uncovered(report))
    assert not any(
        "parties" in line
        for line in [*words.promise(made_up_report()), *words.uncovered(made_up_report())]
    )
    assert (
        one_iteration(0, usage={"gpt-4o": ESTIMATED}).metrics()["dollars_estimated/gpt-4o"] == 0.375
    )


SAME = (
    "epsilon",
    "epsilon_exact",
    "delta",
    "sigma",
    "sensitivity",
    "calibration",
    "protects",
    "adjacency",
)
PLANNED = {name: name for name in (*SAME, "released", "public_rows")}
HAPPENED = {"epsilon": "epsilon_spent", "added": "epsilon_added", "releases": "releases"}
HAPPENED |= {"charged": "releases_charged", "samples": "n_synthetic", "charges": "charges"}


def test_reports_of_earlier_versions_open():
    stored = json.loads(json.dumps(to_json(made_up_report())))
    stored |= {"plan": {early: stored.pop(name) for early, name in PLANNED.items()}}
    stored["plan"] |= {"releases": 9, "samples": 5, "calls": 7, "dollars": 0.93}
    stored["happened"] = {early: stored.pop(name) for early, name in HAPPENED.items()}
    assert from_json(stored) == made_up_report()
    del stored["plan"]["released"], stored["plan"]["public_rows"]
    stored["plan"] |= {"density": "", "beside": ""}
    for name in ("sections", "usefulness", "discriminator", "stubs", "balance", "warnings"):
        del stored[name]
    for facts in stored["iterations"]:
        facts |= {"accuracy": facts.pop("probe_accuracy"), "fid_null": 0.1}
        del facts["endpoints"]
        for usage in facts["usage"].values():
            del usage["estimated_calls"], usage["estimated_dollars"]
    opened = from_json(stored)
    assert [release.kind for release in opened.released] == ["votes"]
    assert opened.iterations == made_up_report().iterations
    stored["plan"] |= {"density": "a density"}
    assert [(release.kind, release.text) for release in from_json(stored).released] == [
        ("density", "a density")
    ]


@pytest.mark.parametrize(
    "damage", [{"run_id": None}, {"seconds": "long"}, {"scores": {"accuracy": "high"}}]
)
def test_a_damaged_report_is_refused(damage):
    with pytest.raises(ValueError, match="validation error"):
        from_json(to_json(made_up_report()) | damage)


@pytest.mark.parametrize("plot", [plots.fid_accuracy_plot, plots.weights_plot, map_plot])
def test_a_figure_comes_as_picture_too_and_equal_input_gives_equal_bytes(plot):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    picture = plot(made_up_report(), "png")
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24])[0] > 600
    assert plot(made_up_report(), "png") == picture
    drawn = plot(made_up_report()).decode()
    assert "currentColor" in drawn
    assert "#010203" not in drawn
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("useful", "expected", "names"),
    [
        (None, "was not evaluated", []),
        (
            Usefulness(Accuracy(50, 300), 1 / 6, "linear"),
            "not better than chance",
            ["chance", ON_ROWS],
        ),
        (Usefulness(Accuracy(250, 300, 600), 1 / 6, "linear"), "chance is 16.7 %", ["chance", NEW]),
        (FULL, "10.0 points more than the same models without private records", ALL),
        (WITH_CORPUS, "10.0 points more than the same models without private records", EVERY),
        (
            replace(
                FULL, baseline=Baseline("linear", Accuracy(240, 300, 120), Accuracy(240, 300, 120))
            ),
            "with equally many texts, no more than the same models without private records",
            ALL,
        ),
    ],
)
def test_the_verdict_states_result_references_and_privacy(
    useful: Usefulness | None, expected: str, names: list[str]
) -> None:
    report = made_up_report(usefulness=useful)
    assert expected in verdict(report)
    assert "epsilon" in verdict(report)
    drawn = re.findall(
        '<div class="bar (?:floor|run)"><span class="name">(.+?)(?: <small>.+?</small>)?</span>',
        render(report),
    )
    assert [html.unescape(name) for name in drawn] == names
