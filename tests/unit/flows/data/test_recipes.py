"""Recipes as files: the shipped ones, and the messages about faulty ones."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.embedders.vocabularies import read_terms
from connectors.interfaces.errors import ConfigError, InputError, PlaceError
from connectors.interfaces.rows import TermsRef
from connectors.rows import recipe_outputs
from connectors.rows.recipe_outputs import NOT_FETCHED, fetch_command, missing_hint, recipe_for
from connectors.rows.sources import list_files
from flows.data.preparation import file_digest
from flows.data.recipes import read_recipe, recipe_names
from flows.data.steps import Step
from tests.support.paths import DATA, ROOT
from tests.support.servers.files import FileServer
from tests.unit.flows.data.conftest import pinned

COMPLETE = (
    "banking10/train.parquet",
    "dbpedia14/train.parquet",
    "vocab/english_50k.parquet",
    "yelp_category/train.parquet",
    "yelp_rating/train.parquet",
)
"""Files of the folder of real data that contain exactly the rows of a recipe."""


@pytest.mark.parametrize("name", recipe_names())
def test_a_shipped_recipe_states_what_it_fetches_and_makes(name: str) -> None:
    recipe = read_recipe(name)
    for source, file in recipe.files:
        assert source.base.startswith("https://")
        assert file.is_pinned or file.members_sha256
        assert file.bytes or source.format == "archive" or name == "openreview2023"
    for output in recipe.outputs.values():
        # Its files could not be had when the recipe was written.
        is_known = name != "openreview2023"
        assert (output.rows is not None, output.digest is not None) == (is_known, is_known)


def test_no_file_has_two_recipes() -> None:
    outputs = [path for name in recipe_names() for path in read_recipe(name).outputs]
    assert len(outputs) == len(set(outputs))


def test_data_files_of_shipped_configurations_have_a_recipe_or_a_reason() -> None:
    """A configuration names no data file that nobody can get."""
    texts = [path.read_text() for path in (ROOT / "deployments/configs").rglob("*.yaml")]
    named = {
        word.strip("{},\"'")
        for text in texts
        for word in text.replace("[", " ").split()
        if word.strip("{},\"'").endswith(".parquet")
    }
    files = {name for name in named if "/" in name and ":" not in name and "DATA" not in name}
    assert "imdb/train.parquet" in files
    without = {name for name in files if recipe_for(name) is None}
    assert without <= set(NOT_FETCHED)
    guide = (ROOT / "docs/guides/data.md").read_text()
    for name in NOT_FETCHED:
        folder, _, file = name.rpartition("/")
        assert name in guide or file in guide or f"`{folder}/`" in guide, name


def test_the_message_about_a_file_that_no_recipe_makes_leads_to_the_guide(tmp_path: Path) -> None:
    with pytest.raises(
        PlaceError, match=r"does not exist. No recipe makes it: docs/guides/data.md"
    ):
        list_files(str(tmp_path / "mimic/notes.csv"), "private.path: mimic/notes.csv")
    with pytest.raises(InputError, match=r"glove.6B.300d.txt does not exist. No recipe makes it"):
        read_terms(TermsRef(str(tmp_path / "glove/glove.6B.300d.txt")))
    assert missing_hint("s3://bucket/rows.csv").startswith("Check the address")
    assert missing_hint("rows.csv").startswith("Relative paths")


def test_a_path_has_the_recipe_of_its_last_folders() -> None:
    assert recipe_for("imdb/train.parquet") == "imdb"
    assert recipe_for("/srv/plm_outputs/imdb/opt-6.7b.parquet") == "plm_outputs"
    assert recipe_for("s3://bucket/imdb/train.parquet") is None
    assert recipe_for("train.parquet") is None


def test_the_command_names_the_folder_unless_it_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_DATA", str(tmp_path))
    assert fetch_command(str(tmp_path / "imdb/train.parquet")) == "wasp data imdb"
    elsewhere = tmp_path / "an other" / "imdb/train.parquet"
    assert fetch_command(str(elsewhere)) == f"wasp data imdb --to '{tmp_path / 'an other'}'"
    assert fetch_command(str(tmp_path / "mine.parquet")) is None


def test_the_data_folder_is_chosen_set_found_or_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_DATA", "/srv/rows")
    monkeypatch.setattr(recipe_outputs, "CHECKOUT_DATA", tmp_path)
    assert recipe_outputs.data_folder() == Path("/srv/rows")
    monkeypatch.delenv("WASP_DATA")
    assert recipe_outputs.data_folder() == tmp_path
    monkeypatch.setattr(recipe_outputs, "CHECKOUT_DATA", tmp_path / "missing")
    monkeypatch.setenv("XDG_DATA_HOME", "/home/ada/share")
    assert recipe_outputs.data_folder() == Path("/home/ada/share/wasp/data")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ada")
    assert recipe_outputs.data_folder() == Path("/home/ada/.local/share/wasp/data")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda v: v["outputs"].update({"../x.parquet": {"table": "rows"}}),
            "below the data folder",
        ),
        (lambda v: v["outputs"].update({".wasp-data/x.parquet": {"table": "rows"}}), "hidden"),
        (lambda v: v["outputs"].update({"x.csv": {"table": "rows"}}), "must end in .parquet"),
        (lambda v: v["outputs"].update({"x.parquet": {"table": "row"}}), "no table 'row'"),
        (lambda v: v["tables"]["rows"].append({"read": "other"}), "no source 'other'"),
        (lambda v: v["tables"]["rows"].append({"table": "rows"}), "no table 'rows' before"),
        (lambda v: v["tables"]["rows"].append({"shufle": 0}), "did you mean 'shuffle'"),
        (lambda v: v["tables"]["rows"].append({"shuffle": 0, "strip": ["text"]}), "exactly one"),
        (lambda v: v["sources"]["rows"].update({"members": "x"}), "archive"),
        (lambda v: v.pop("licence"), "licence: is missing"),
    ],
)
def test_a_faulty_recipe_is_refused_with_the_field(
    change: Any, message: str, origin: FileServer, tmp_path: Path
) -> None:
    values = pinned(origin)
    change(values)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match=message):
        read_recipe(str(path))


def test_the_page_names_each_set_and_step_and_its_example_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs/guides/data.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert {row[0].strip("| `") for row in rows} >= set(recipe_names())
    steps = "".join(row[0] for row in rows)
    assert [name for name in Step.model_fields if name not in steps] == []
    example = page.split("```yaml")[1].split("```")[0]
    path = tmp_path / "mine.yaml"
    path.write_text(example)
    assert list(read_recipe(str(path)).outputs) == ["club/train.parquet", "club/test.parquet"]


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'banking10'"):
        read_recipe("banking1")


@pytest.mark.real_data
@pytest.mark.parametrize("path", COMPLETE)
def test_real_files_have_the_digest_of_their_recipe(path: str) -> None:
    recipe = read_recipe(str(recipe_for(path)))
    assert file_digest(DATA / path) == (recipe.outputs[path].digest, recipe.outputs[path].rows)
