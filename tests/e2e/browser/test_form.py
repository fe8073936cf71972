"""The parameters of a flow as a form: everything has a name and an explanation, and is filled in."""

import pytest

from tests.support.browser.story import DEPLOYMENT, OWN, Story

MEASURED = """const places = [...document.querySelectorAll('*')].filter(e => e.scrollHeight > e.clientHeight + 1)
return {height: Math.max(innerHeight, ...places.map(e => e.scrollHeight)),
        fields: document.querySelectorAll('main label').length}"""
"""Height of the form in px, and its labels."""


@pytest.fixture(scope="module")
def form(story: Story) -> Story:
    story.open_form()
    story.window.see("Epsilon", "Samples", "Seed")
    story.window.shot("form-1-filled", whole=True)
    return story


def test_the_form_is_filled_with_the_values_of_the_deployment(form: Story) -> None:
    expected = form.site.deployment(DEPLOYMENT)["parameters"]["config"]
    window = form.window
    assert float(window.value("Privacy", "Epsilon")) == expected["privacy"]["epsilon"]
    assert int(window.value("Method", "Samples")) == expected["method"]["samples"]
    assert int(window.value("Execution", "Seed")) == expected["execution"]["seed"]


def test_the_form_fits_two_screens_and_has_at_most_sixty_fields(form: Story) -> None:
    measured: dict[str, int] = form.window.driver.execute_script(MEASURED)
    assert measured["height"] <= 2 * 900, measured
    assert measured["fields"] <= 60, measured
    text = form.window.text
    titles = [text.index(title) for title in ("Epsilon", "Samples", "Seed")]
    assert titles == sorted(titles)
    assert "Field (Optional)" not in text, "a box without a name"


def test_a_number_out_of_bounds_is_refused_in_the_form_with_its_name(form: Story) -> None:
    before = len(form.site.flow_runs())
    form.window.fill("-1", "Privacy", "Epsilon")
    form.window.click("Submit")
    form.window.see("epsilon")
    form.window.shot("form-4-refused")
    assert len(form.site.flow_runs()) == before


def test_the_form_of_own_data_asks_for_its_dataset_and_what_it_needs(form: Story) -> None:
    window = form.window
    form.open_form(OWN)
    text = window.see("Dataset", "Label")
    titles = [text.index(title) for title in ("Dataset", "Epsilon", "Samples", "Models", "Test")]
    assert titles == sorted(titles)
    kinds = {"str", "float", "int", "list", "None"}
    assert not kinds & set(text.split("\n")), "a button for a kind of value"
    assert {"Epsilon", "Samples", "Task"} <= set(text.split("\n")), (
        "a needed field is called optional"
    )
    measured: dict[str, int] = window.driver.execute_script(MEASURED)
    assert measured["height"] <= 2 * 920, measured
    assert window.value("Task") == "support_desk"
    before = len(form.site.flow_runs())
    window.click("Submit")
    window.see("'dataset' is a required property")
    window.shot("form-5-own-data", whole=True)
    assert len(form.site.flow_runs()) == before
