"""The parameters of a flow as a form: everything has a name and an explanation, and is filled in."""

from typing import Any

import pytest

from tests.support.browser.story import DEPLOYMENT, Story

MEASURED = """const places = [...document.querySelectorAll('*')].filter(e => e.scrollHeight > e.clientHeight + 1)
return {height: Math.max(innerHeight, ...places.map(e => e.scrollHeight)),
        fields: document.querySelectorAll('main label').length}"""
"""Height of the form in px, and its labels."""


@pytest.fixture(scope="module")
def form(story: Story) -> Story:
    story.open_form()
    story.window.see("Epsilon", "Task")
    story.window.shot("form-1-filled", whole=True)
    return story


def group_of(field: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of the box that a field is; an empty one for a field that is none."""
    places = [one["$ref"] for one in [field, *field.get("allOf", ()), *field.get("anyOf", ())] if "$ref" in one]
    return dict(definitions[places[0].rsplit("/", 1)[1]]) if places else {"properties": {}}


def test_every_box_and_field_has_a_title_and_an_explanation(form: Story) -> None:
    deployment = form.site.deployment(DEPLOYMENT)
    filled, definitions = deployment["parameters"]["config"], deployment["parameter_openapi_schema"]["definitions"]
    fields = definitions["WaspConfig"]["properties"]
    titles, explanations = [], []
    for name, field in fields.items():
        group = group_of(field, definitions)
        titles.append([field["title"]])
        explanations.append(field.get("description") or group["description"])
        for inner in group["properties"].values() if isinstance(filled.get(name), dict) else ():
            titles.append([field["title"], inner["title"]])
            explanations.append(inner["description"])
    assert all(explanations)
    form.window.see(*explanations)  # the page draws a long form piece by piece, and the values of its boxes last
    assert [title for title in titles if form.window.shown(form.window.field(*title)) is None] == []
    assert "Field (Optional)" not in form.window.text, "a box without a name"


def test_the_form_is_filled_with_the_values_of_the_deployment(form: Story) -> None:
    wanted = form.site.deployment(DEPLOYMENT)["parameters"]["config"]
    window = form.window
    assert window.value("Task") == wanted["task"]
    assert float(window.value("Privacy", "Epsilon")) == wanted["privacy"]["epsilon"]
    assert int(window.value("Method", "Samples")) == wanted["method"]["samples"]
    assert int(window.value("Execution", "Seed")) == wanted["execution"]["seed"]


def test_the_form_fits_two_screens_and_has_at_most_sixty_fields(form: Story) -> None:
    form.window.see("Dataset", "Task")
    measured: dict[str, int] = form.window.driver.execute_script(MEASURED)
    assert measured["height"] <= 2 * 900, measured
    assert measured["fields"] <= 60, measured
    text = form.window.text
    titles = [text.index(title) for title in ("Dataset", "Epsilon", "Samples", "Seed")]
    assert titles == sorted(titles)


def test_a_number_out_of_bounds_is_refused_in_the_form_with_its_name(form: Story) -> None:
    before = len(form.site.flow_runs())
    form.window.fill("-1", "Privacy", "Epsilon")
    form.window.click("Submit")
    form.window.see("epsilon")
    form.window.shot("form-4-refused")
    assert len(form.site.flow_runs()) == before
