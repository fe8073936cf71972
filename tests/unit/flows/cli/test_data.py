"""The command `wasp data`: list, one set, all sets."""

from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import ConfigError, InputError
from flows.cli.data import data
from flows.data.obtain import DataFolder, Obtained
from flows.data.recipes import recipe_names


def test_the_list_names_each_set_with_its_state(tmp_path: Path) -> None:
    listing = data(to=tmp_path)
    assert [entry["name"] for entry in listing["sets"]] == recipe_names()
    assert {entry["state"] for entry in listing["sets"]} == {"missing"}
    text = listing.to_text(listing)
    assert "banking10            missing" in text
    assert str(tmp_path) in text


def test_a_name_and_all_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Remove NAME or --all"):
        data("imdb", all_=True, to=tmp_path)


@pytest.mark.parametrize("option", [{"yes": True}, {"replace": True}, {"from_": "mirror"}])
def test_an_option_to_fetch_needs_a_name(option: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="NAME: missing"):
        data(to=tmp_path, **option)


def test_all_continues_after_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def obtain(_: DataFolder, name: str, *__: object) -> Obtained:
        if name == "imdb":
            raise InputError("https://example.org: the origin answers HTTP 404")
        return Obtained(
            name, {"x.parquet": "0" * 64}, first_uses={"https://example.org/x": "1" * 64}
        )

    monkeypatch.setattr(DataFolder, "obtain", obtain)
    result = data(all_=True, to=tmp_path)
    assert len(result["sets"]) == len(recipe_names()) - 1
    assert result.problems == ["https://example.org: the origin answers HTTP 404"]
    assert result.exit_code == InputError.exit_code
    assert "trusted on first use: https://example.org/x has SHA-256 " + "1" * 64 in result.to_text(
        result
    )
