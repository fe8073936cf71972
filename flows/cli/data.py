"""The command `wasp data`: list, fetch and prepare public data sets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ConfigError, WaspError
from connectors.interfaces.json_values import Json
from flows.cli.common import Output

if TYPE_CHECKING:
    from flows.data.obtain import DataFolder


def data(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A shipped recipe, or the path of your own: ./mine.yaml. Default: list.",
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All shipped recipes.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            help="Data folder. Default: WASP_DATA, else the folder where shipped configurations look."
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Folder or address with copies: https://HOST/PATH is read from FROM/HOST/PATH.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree to the licences that are shown; for scripts.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace files that have other rows.")
    ] = False,
) -> Output:
    """Fetch public data sets of papers from their origins, check and prepare them; without NAME: list them."""
    from connectors.rows.recipe_outputs import data_folder
    from flows.data.obtain import DataFolder
    from flows.data.recipes import recipe_names

    folder = DataFolder((to or data_folder()).expanduser(), from_, replace)
    if name is None and not all_:
        if yes or replace or from_:
            raise ConfigError(
                "NAME: missing, and --from, --yes and --replace are for sets to fetch. Write NAME or --all"
            )
        return Output(_listing(folder), _list_text)
    if name is not None and all_:
        raise ConfigError("--all: names all recipes already. Remove NAME or --all")
    if name is not None:
        obtained = _obtain(folder, name, yes)
        return Output({"folder": str(folder.path), "sets": [obtained]}, _result_text)
    sets = []
    problems = []
    exit_code = 0
    for recipe_name in recipe_names():
        try:
            sets.append(_obtain(folder, recipe_name, yes))
        except WaspError as error:  # one origin that is gone must not keep the others away
            problems.append(str(error))
            exit_code = error.exit_code
    result = {"folder": str(folder.path), "sets": sets}
    return Output(result, _result_text, exit_code, problems)


def _obtain(folder: DataFolder, name: str, yes: bool) -> Json:
    from flows.data.obtain import confirm_on_terminal
    from flows.data.recipes import read_recipe

    obtained = folder.obtain(name, read_recipe(name), partial(confirm_on_terminal, accepted=yes))
    return {
        "name": obtained.name,
        "was_present": obtained.was_present,
        "files": obtained.files,
        "first_uses": obtained.first_uses,
    }


def _listing(folder: DataFolder) -> Json:
    from flows.data.recipes import read_recipe, recipe_names

    sets = []
    for name in recipe_names():
        recipe = read_recipe(name)
        sets.append(
            {
                "name": name,
                "title": recipe.title,
                "size": recipe.size_text,
                "licence": recipe.licence,
                "files": list(recipe.outputs),
                "state": folder.state(recipe),
            }
        )
    return {"folder": str(folder.path), "sets": sets}


def _list_text(listing: Json) -> str:
    lines = [f"Public data sets. Folder: {listing['folder']}", ""]
    for entry in listing["sets"]:
        lines.append(f"{entry['name']:<20} {entry['state']:<10} {entry['title']} ({entry['size']})")
    lines += ["", "Fetch one with: wasp data NAME. Each shows its origin and licence first."]
    return "\n".join(lines)


def _result_text(result: Json) -> str:
    lines = []
    for entry in result["sets"]:
        state = "prepared"
        if entry["was_present"]:
            state = "already there"
        lines.append(
            f"{entry['name']}: {state}, {counted(len(entry['files']), 'file')} in {result['folder']}"
        )
        lines += [f"  {path}  digest {digest}" for path, digest in entry["files"].items()]
        for address, sha256 in entry["first_uses"].items():
            lines.append(
                f"  trusted on first use: {address} has SHA-256 {sha256}, which the recipe does not state. It is "
                "recorded, and required from now on"
            )
    return "\n".join(lines)
