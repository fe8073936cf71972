"""Texts and map of a report, and the page of an audit."""

import dataclasses
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from flows.audit import text
from flows.audit.run import page_of
from tasks.evaluation.map_points import MapPoints
from tasks.reporting import text_browser
from tasks.reporting.report import render
from tasks.reporting.text_browser import browse, near_copies
from tasks.reporting.text_map import groups, map_plot, texts_by_group
from tests.support.data.reports import CLASSES, made_up_report
from tests.support.golden_pages import check_page

COLUMNS = ["text", "label", "plm", "iteration"]
ROWS = pd.DataFrame(
    [
        ("The parcel is late again, please call me", "delivery", "clerk", 0),
        ("the parcel is late again please call me", "delivery", "writer", 1),
        ("I was charged twice </script><script>alert(1)</script>", "billing", "clerk", 1),
    ],
    columns=COLUMNS,
)


def test_every_text_is_in_the_page_and_ends_no_script() -> None:
    browser = browse(ROWS)
    assert "</script" not in browser.data
    data = json.loads(browser.data)
    assert [row[0] for row in data["rows"]] == ROWS["text"].tolist()
    assert data["labels"] == ["delivery", "billing"]
    page = render(made_up_report(), ROWS)
    assert page.count("<script") == page.count("</script>") == 3
    assert "alert(1)" in page
    assert "<script>alert" not in page


def test_quality_is_stated_by_class() -> None:
    delivery, billing = browse(ROWS).classes
    assert delivery == {"name": "delivery", "texts": 2, "words": 8, "copies": 1.0}
    assert (billing["texts"], billing["copies"]) == (1, 0.0)


def copies_of(texts: list[str]) -> list[bool]:
    return near_copies(texts, np.arange(len(texts))).tolist()


def test_copies_of_an_even_part_are_searched_among_many_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_browser, "MAX_SEARCHED", 2)
    browser = browse(ROWS)
    assert browser.searched == 2
    assert [row["copies"] for row in browser.classes] == [1.0, 0.0]
    page = render(made_up_report(), ROWS)
    assert "of the run; searched for 2 of the texts among all" in page


@pytest.mark.parametrize(
    ("texts", "copies"), [([], []), (["one"], [False]), (["?", "!"], [False, False])]
)
def test_few_texts_have_no_copies(texts: list[str], copies: list[bool]) -> None:
    assert copies_of(texts) == copies


def test_copies_are_those_of_all_products_of_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0)
    words = [f"word{number}" for number in range(60)]
    frequencies = 1 / np.arange(1, 61)
    drawn = draws.choice(words, (300, 12), p=frequencies / frequencies.sum())
    texts = [" ".join(row) for row in drawn]
    # Copies with one word in twelve replaced, by a frequent or a rare one.
    for number in range(60):
        copied = texts[number].split()
        copied[number % 12] = words[number]
        texts.append(" ".join(copied))
    vectors = TfidfVectorizer().fit_transform(texts)
    products = (vectors @ vectors.T).toarray()
    np.fill_diagonal(products, 0)
    expected = (products >= text_browser.NEAR_COPY).any(axis=1).tolist()
    assert 20 < sum(expected) < 340
    assert copies_of(texts) == expected
    every_third = np.arange(0, len(texts), 3)
    assert near_copies(texts, every_third).tolist() == expected[::3]
    monkeypatch.setattr(text_browser, "_PRODUCTS", 500)
    monkeypatch.setattr(text_browser, "_PAIRS", 7)
    assert copies_of(texts) == expected


def test_a_large_set_is_shown_evenly_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_browser, "MAX_BYTES", 60)
    browser = browse(ROWS)
    assert browser.shown < browser.total == 3
    assert f"this page has {browser.shown} of them" in render(made_up_report(), ROWS)


# --- the map of a report: a colour for each class, and the text of every dot
MAPPED = pd.DataFrame([("a text", CLASSES[0], "clerk", 0)], columns=COLUMNS)


def test_every_dot_of_the_picture_has_its_text_at_the_same_place() -> None:
    report = made_up_report()
    svg = map_plot(report).decode()
    texts = json.loads(texts_by_group(report.map))
    for number, (name, positions) in enumerate(groups(report.map)):
        drawn = re.search(rf'<g id="map-{number}">(.*?)</g>\s*</g>', svg, re.S)
        assert drawn, name
        assert drawn[1].count("<use") == len(positions) == len(texts[number]) == 120
        assert texts[number] == [[name, report.map.texts[position]] for position in positions]


def test_the_most_frequent_classes_have_a_colour_and_the_others_share_one() -> None:
    labels = [f"class {number}" for number in range(12) for _ in range(12 - number)]
    points = MapPoints(tuple((float(i), 0.0) for i in range(len(labels))), (), labels=tuple(labels))
    result = groups(points)
    assert [name for name, _ in result] == [
        *(f"class {number}" for number in range(9)),
        "other classes",
    ]
    assert [len(positions) for _, positions in result] == [12, 11, 10, 9, 8, 7, 6, 5, 4, 6]
    assert sorted(position for _, positions in result for position in positions) == list(
        range(len(labels))
    )


def test_a_page_with_texts_has_those_of_the_map_and_ends_no_script() -> None:
    page = render(made_up_report(), MAPPED)
    assert "text 7 \\u003cb>" in page
    assert "text 7" not in render(made_up_report()), (
        "a page without texts, such as one that is not private"
    )


def test_a_report_of_an_earlier_version_draws_its_map_in_one_colour() -> None:
    report = made_up_report()
    earlier = dataclasses.replace(report.map, labels=(), texts=(), test_labels=())
    assert [name for name, _ in groups(earlier)] == ["synthetic"]
    page = render(dataclasses.replace(report, map=earlier), MAPPED)
    assert 'id="figure-map"' in page
    assert "point at a dot" not in page


def test_the_map_has_room_for_its_points_next_to_long_class_names() -> None:
    names = [
        f"balance_not_updated_after_a_transfer_or_a_deposit_of_cash_{number}" for number in range(9)
    ]
    points = tuple((float(number % 7), float(number % 5)) for number in range(90))
    report = made_up_report(
        map=MapPoints(points, (), labels=tuple(names * 10), texts=("text",) * 90)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert map_plot(report, "png")


# --- the page of an audit: one golden page of a red audit with a whole run
VOTES = {
    "mechanism": "wasp tight", "adjacency": "add_remove", "delta": 1e-5, "sensitivity": 1.6, "epsilon_stated": 4.0,
    "epsilon_claimed": 4.0, "protects": "record", "noise": "gaussian", "noise_scale": 3.5, "releases": 4,
    "epsilon_proven": 4.5, "stated_holds": True, "sound": False, "fresh": True, "number_kept": True, "passed": False,
    "findings": [{"what": "who took part", "passed": False, "epsilon_proven": 4.5, "remark": "2 false alarms"}],
    "freshness": "noises correlate by 0.1 standard errors", "number": "4 releases seen, 4 planned",
}  # fmt: skip
PRINTED = VOTES | {
    "mechanism": "dp_kps density paper",
    "epsilon_claimed": 10.0,
    "epsilon_proven": 5.0,
}
PRINTED |= {"stated_holds": False, "sound": True, "passed": True, "findings": []}
ATTACK = {
    "what": "noisy votes",
    "guesses": 250,
    "correct": 200,
    "bound": 0.68,
    "auc": 0.69,
    "interval": [0.64, 0.73],
}
WHOLE = VOTES | {
    "mechanism": "whole run",
    "epsilon_proven": 0.68,
    "passed": True,
    "attacks": [ATTACK | {"hits": 0.1}],
}
RESULT = {
    "run_id": "audit-e4", "ended": "2026-11-25T10:00:00", "passed": False, "trials": 1000, "confidence": 0.999,
    "mechanisms": [VOTES, PRINTED], "pipeline": WHOLE, "seconds": 9.0, "audit": "runs/audit-e4/audit.json",
}  # fmt: skip


def test_the_page_and_the_summary_state_what_is_red_and_what_is_no_guarantee() -> None:
    page = page_of(RESULT)
    check_page("audit", page)
    assert "<mark>red</mark>" in page
    shown = text.summary(RESULT)
    for part in ("Audit is RED", "epsilon 4.0000 is claimed, at least epsilon 4.5000 is proven at delta 1e-05",
                 "the printed epsilon 4.0000 is no guarantee for one record", "AUC 0.690"):  # fmt: skip
        assert part in shown, part
