"""The map of a report: a colour for each class, and the text of every dot."""

import dataclasses
import json
import re

from tasks.reporting.report import render
from tasks.reporting.run_record import MapPoints
from tasks.reporting.text_browser import TextRow
from tasks.reporting.text_map import groups, map_plot, texts_by_group
from tests.support.data.reports import CLASSES, made_up_report

ROWS = [TextRow("a text", CLASSES[0], "clerk", 0)]


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
    found = groups(points)
    assert [name for name, _ in found] == [*(f"class {number}" for number in range(9)), "other classes"]
    assert [len(positions) for _, positions in found] == [12, 11, 10, 9, 8, 7, 6, 5, 4, 6]
    assert sorted(position for _, positions in found for position in positions) == list(range(len(labels)))


def test_a_page_with_texts_has_those_of_the_map_and_ends_no_script() -> None:
    page = render(made_up_report(), ROWS)
    assert "text 7 \\u003cb>" in page
    assert "text 7" not in render(made_up_report()), "a page without texts, such as one that is not private"


def test_a_report_of_an_earlier_version_draws_its_map_in_one_colour() -> None:
    report = made_up_report()
    earlier = dataclasses.replace(report.map, labels=(), texts=(), test_labels=())
    assert [name for name, _ in groups(earlier)] == ["synthetic"]
    page = render(dataclasses.replace(report, map=earlier), ROWS)
    assert 'id="figure-map"' in page
    assert "point at a dot" not in page
