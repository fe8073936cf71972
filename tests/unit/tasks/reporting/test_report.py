import dataclasses
import html.parser
import json
import math
import re
import struct
import subprocess
import sys

import pytest

from connectors.interfaces.models import Usage
from tasks.reporting import plots
from tasks.reporting import text as words
from tasks.reporting.report import render
from tasks.reporting.report_model import ClassShare, Happened, Sample, Scores, Touched, from_json, to_json
from tasks.reporting.text_map import map_plot
from tests.support.data.reports import made_up_report, one_iteration
from tests.support.paths import ROOT

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


def test_every_element_of_the_page_is_closed_and_every_anchor_leads_somewhere(page):
    read = Page(page)
    assert read.open == []
    names = [value for _, name, value in read.attributes if name == "id"]
    links = [value[1:] for tag, name, value in read.attributes if tag == "a" and name == "href"]
    assert len(names) == len(set(names))
    assert len(links) == 10
    assert set(links) <= set(names)


def test_the_page_says_where_prompts_went_and_shows_the_last_one(page):
    said = Page(page).said
    assert "api.vendor.example" in said
    assert "none (local model)" in said
    assert "Write one item & more" in said


def test_the_page_asks_nothing_of_anyone_outside(page):
    read = Page(page)
    references = [value for _, name, value in read.attributes if name in ("src", "href", "xlink:href", "action")]
    assert references
    assert all(value.startswith("#") for value in references)
    assert "script" not in read.tags
    assert not re.search(r"@import|url\((?!#)", page)


def test_every_table_has_a_caption_and_every_figure_says_what_it_shows(page):
    read = Page(page)
    assert read.tags.count("table") == read.tags.count("caption") > 5
    alts = [value for tag, name, value in read.attributes if tag == "div" and name == "aria-label"]
    assert read.tags.count("svg") == read.tags.count("figure") == len(alts) == 6
    assert "FID of equally many texts went from 0.620 to 0.580; MMD went from 28.500 to 14.500" in read.said


def test_equal_reports_give_equal_pages_in_another_process_too(page):
    code = (
        "from tests.support.data.reports import made_up_report; from tasks.reporting.report import render; import sys; "
    )
    code += "sys.stdout.write(render(made_up_report()))"
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert again.stdout == page


def test_text_of_a_model_stays_text():
    evil = '<script>alert(1)</script> $x_1$ & "quoted"'
    sample = Sample(evil, evil, 0, evil)
    scores = Scores(0.5, 0.5, (evil, "b"), {evil: {"f1": 0.5}}, ((1, 2), (3, 4)))
    iteration = one_iteration(0, new={evil: 3}, weights={evil: 1.0}, failures={evil: {evil: 1}})
    shown = render(
        made_up_report(samples=(sample,), scores=scores, iterations=(iteration,), degraded=(evil,), task=evil)
    )
    assert "script" not in Page(shown).tags
    assert "<script" not in shown
    assert "<script>alert(1)</script>" in Page(shown).said


def test_a_run_without_noise_is_banned_in_red_and_promises_nothing():
    plan = dataclasses.replace(made_up_report().plan, epsilon=math.inf, epsilon_exact=math.inf, sigma=0.0)
    iterations = tuple(one_iteration(number, epsilon=None) for number in range(2))
    shown = render(made_up_report(plan=plan, happened=Happened(None, 1, 2400), iterations=iterations))
    said = Page(shown).said
    assert 'class="banner"' in shown
    assert "NOT PRIVATE" in said
    assert "Nothing is promised" in said
    assert "votes of the private rows" in said
    assert "Nothing: every number" not in said


def test_a_private_run_has_no_such_banner_and_says_that_nothing_was_unnoised(page):
    assert "NOT PRIVATE" not in page
    assert "Nothing: every number on this page comes from releases with noise" in page


def test_what_touched_private_rows_without_noise_is_listed_and_marked():
    fid = Touched("FID against private rows", "runs/x/private_metrics.json", "evaluation.fid_reference: private")
    shown = Page(render(made_up_report(touched=(fid,)))).said
    assert "runs/x/private_metrics.json" in shown
    assert "not private" in shown


def test_a_private_fid_that_nobody_listed_is_listed_all_the_same():
    report = made_up_report(iterations=(one_iteration(0, not_private=True, fid_reference="private"),))
    shown = Page(render(report)).said
    assert "FID against private rows" in shown
    assert "Nothing: every number" not in shown


def test_what_was_not_measured_is_not_shown():
    iterations = tuple(one_iteration(i, fid=None, fid_equal=None, probe_accuracy=None) for i in range(2))
    report = made_up_report(scores=None, map=None, iterations=iterations)
    said = Page(render(report)).said
    assert "not measured" not in said
    assert not re.search(r"FID|probe accuracy|on test rows", said)
    assert plots.fid_accuracy_plot(report) is None
    assert map_plot(report) is None
    assert plots.confusion_plot(report) is None


def test_a_run_that_failed_before_its_first_iteration_still_has_a_page():
    report = made_up_report(
        iterations=(), scores=None, samples=(), map=None, state="FAILED", happened=Happened(0.0, 0, 0)
    )
    shown = Page(render(report))
    assert "No iteration was finished." in shown.said
    assert "svg" not in shown.tags


def test_the_plan_is_set_against_what_happened():
    report = made_up_report(happened=Happened(2.8, 3, 5400), degraded=("model 'claude' gave no answers",))
    read = Page(render(report)).said
    assert re.search(r"releases\s+4\s+3\s+less", read)
    assert re.search(r"texts\s+6,000\s+5,400\s+less", read)
    assert re.search(r"calls\s+800\s+800\s+as planned", read)
    assert "model 'claude' gave no answers" in read


def test_what_a_run_added_to_the_budget_is_told_apart_from_what_its_output_loses():
    plan = dataclasses.replace(made_up_report().plan, epsilon=1.0, epsilon_exact=1.0)
    read = Page(render(made_up_report(plan=plan, happened=Happened(1.0, 4, 6000, (), 0.854, 3)))).said
    said = " ".join(read.split())
    assert "added to the budget 0.854 releases: 3 charged, 1 reused" in said
    assert "privacy loss of this run's output is epsilon 1" in said
    assert "at most 73.1 % sure" in said, "from the loss of the output, not from what was added"
    assert "not recorded" in Page(render(made_up_report(happened=Happened(1.0, 4, 6000)))).said


def test_a_warning_alone_does_not_degrade_a_run():
    warned = Page(render(made_up_report(warnings=("method.declared_rows (120) is public",)))).said
    assert "method.declared_rows (120) is public" in warned
    assert "degraded" not in warned.lower()
    assert "completed, degraded" in Page(render(made_up_report(degraded=("clerk was down in iteration 0",)))).said


@pytest.mark.parametrize(("loss", "sure"), [(0.0, 0.5), (1.0, 0.7310586), (4.0, 0.9820138), (8.0, 0.9996646)])
def test_the_certainty_of_an_attacker_is_what_bayes_says(loss, sure):
    assert words.certainty(loss) == pytest.approx(sure, abs=1e-6)
    assert words.certainty(loss, 0.01) == pytest.approx(math.exp(loss) * 0.01 / (math.exp(loss) * 0.01 + 0.99))


@pytest.mark.parametrize(("loss", "step"), [(0.99, "strong"), (1.0, "usual"), (4.0, "usual"), (4.1, "weak")])
def test_the_first_screen_states_unit_certainty_and_strength(loss, step):
    plan = dataclasses.replace(made_up_report().plan, protects="person")
    page = render(made_up_report(plan=plan, happened=Happened(loss, 4, 6000)))
    head = " ".join(Page(page.split("</header>")[0] + "</header></body></html>").said.split())
    assert "Protection of each person: an attacker with a 50 % belief" in head
    assert f"becomes at most {100 * words.certainty(loss):.1f} % sure" in head
    assert "per person at delta 1e-05" in head
    assert re.findall(r'class="here"[^>]*>(\w+)', page) == [step]


def test_texts_of_stubs_are_marked(page):
    assert "not for use" not in page
    marked = made_up_report(stubs=("clerk", "novelist"))
    assert "Written by stubs (clerk, novelist): not for use" in render(marked)
    assert from_json(json.loads(json.dumps(to_json(marked)))) == marked


def test_a_single_release_has_no_curve_of_epsilon():
    flat = tuple(one_iteration(number, epsilon=4.0) for number in range(3))
    assert plots.epsilon_plot(made_up_report(iterations=flat)) is None


def test_the_promise_says_epsilon_and_delta_in_chances(page):
    said = " ".join(Page(page).said.split())
    assert "at most 98.2 % sure" in said
    assert "1 in 100,000" in said


def test_a_report_survives_json():
    report = made_up_report(touched=(Touched("a", "b", "c"),), degraded=("x",), warnings=("y",))
    assert from_json(json.loads(json.dumps(to_json(report)))) == report
    assert render(from_json(json.loads(json.dumps(to_json(report))))) == render(report)


@pytest.mark.parametrize(
    "plot", [plots.fid_accuracy_plot, plots.weights_plot, plots.samples_plot, plots.epsilon_plot, map_plot]
)
def test_a_figure_comes_as_picture_too_and_equal_input_gives_equal_bytes(plot):
    picture = plot(made_up_report(), "png")
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24])[0] > 600
    assert plot(made_up_report(), "png") == picture


def test_the_parts_of_classes_are_drawn_where_a_tutor_said_them():
    assert plots.balance_plot(made_up_report()) is None
    shares = tuple(ClassShare(name, 0.4 - 0.1 * place, 0.25, None) for place, name in enumerate(("a & b", "c", "d")))
    report = made_up_report(balance=shares)
    assert from_json(json.loads(json.dumps(to_json(report)))).balance == shares
    assert "a &amp; b" in plots.balance_plot(report).decode()
    assert "Class balance" in render(report)


def test_a_figure_takes_the_ink_of_the_page_and_leaves_no_settings_behind():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    drawn = plots.weights_plot(made_up_report()).decode()
    assert "currentColor" in drawn
    assert "#010203" not in drawn
    assert "gpt-4o" in drawn
    assert dict(mpl.rcParams) == before


def test_importing_the_report_does_not_import_matplotlib():
    code = "import sys, tasks.reporting.report; sys.exit('matplotlib' in sys.modules or 'jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_estimated_money_is_marked_and_reports_of_earlier_versions_open():
    marked = Usage(40, 9000, 5200, 0.5, estimated_calls=30, estimated_dollars=0.375)
    report = made_up_report(iterations=(one_iteration(0, usage={"gpt-4o": marked}),))
    page = render(report)
    assert page.count("$0.50, of which $0.38 estimated") >= 3
    assert "gpt-4o: the server did not report the tokens of 30 calls." in page
    assert report.iterations[0].metrics()["dollars_estimated/gpt-4o"] == 0.375
    stored = to_json(made_up_report())
    for facts in stored["iterations"]:
        facts["accuracy"] = facts.pop("probe_accuracy")
        for usage in facts["usage"].values():
            del usage["estimated_calls"], usage["estimated_dollars"]
    assert "estimated" not in render(from_json(stored))
