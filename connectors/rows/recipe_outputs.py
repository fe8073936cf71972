"""Files that the shipped recipes of `wasp data` write, and the command for one that is missing.

Not in the package that fetches them: every message about a missing file names the command, and the
connectors that write these messages know nothing of `flows`.
"""

import os
import shlex
from functools import cache
from pathlib import Path, PurePosixPath

RECIPES = Path(__file__).parents[1] / "data" / "recipes"
"""Folder of the shipped recipes, one YAML file each."""
NOT_FETCHED = (
    "dbpedia14_full/test.parquet",
    "dbpedia14_full/train.parquet",
    "dbpedia14_full/unlabelled.parquet",
    "glove/glove.6B.300d.txt",
    "mimic/given.csv",
    "mimic/notes.csv",
    "mimic/test.csv",
    "mimic/umls.csv",
    "mimic/unlabelled.csv",
    "vocab/medical_phrases.parquet",
    "yelp_rating_by_user.parquet",
)
"""Files that shipped configurations name and no recipe makes."""
CHECKOUT_DATA = Path(__file__).parents[3] / "shared" / "data"
"""Data folder next to a checkout, where shipped configurations look first (their `data_root`)."""


def data_folder() -> Path:
    """Return the folder of fetched data: WASP_DATA, else the folder next to the checkout, else that of the user."""
    chosen = os.environ.get("WASP_DATA", "").strip()
    if chosen:
        return Path(chosen).expanduser()
    if CHECKOUT_DATA.is_dir():
        return CHECKOUT_DATA
    return user_data_folder()


def user_data_folder() -> Path:
    """Return the default data folder of a user, by the XDG Base Directory Specification."""
    base = os.environ.get("XDG_DATA_HOME", "").strip()
    # The specification says to ignore a relative path.
    if not Path(base).is_absolute():
        base = "~/.local/share"
    return Path(base).expanduser() / "wasp" / "data"


def recipe_for(path: str) -> str | None:
    """Return the name of the shipped recipe that writes a path such as `imdb/train.parquet`; None if there is none.

    An absolute path fits by its last folders.
    """
    made_by = find_output(path)
    if made_by is None:
        return None
    return made_by[1]


def fetch_command(path: str) -> str | None:
    """Return the command that fetches and prepares a missing local file; None if no shipped recipe writes it."""
    made_by = find_output(path)
    if made_by is None:
        return None
    output, recipe = made_by
    command = f"wasp data {recipe}"
    root = Path(path).expanduser().absolute().parents[len(PurePosixPath(output).parts) - 1]
    # Compared as written and resolved: either may contain a symbolic link.
    if root != data_folder().absolute() and root.resolve() != data_folder().resolve():
        command += f" --to {shlex.quote(str(root))}"
    return command


def fetch_hint(path: str) -> str | None:
    """Return how to get a missing local file, the end of each message about it; None if no shipped recipe writes it."""
    command = fetch_command(path)
    if command is None:
        return None
    return f"Fetch it with: {command}"


def missing_hint(path: str) -> str:
    """Return how to get a missing file, the end of each message about it."""
    if hint := fetch_hint(path):
        return hint
    if path.endswith(NOT_FETCHED):
        return "No recipe makes it: docs/guides/data.md, 'Not available by a recipe', states its source."
    if "://" in path:
        return "Check the address and your access, or download the file and name its path."
    return "Relative paths start at data_root or the working folder."


def find_output(path: str) -> tuple[str, str] | None:
    """Return the output of a shipped recipe that a path ends with, and the recipe's name; None if there is none."""
    if "://" in path or path.startswith(("builtin:", "env:")):
        return None
    parts = PurePosixPath(path).parts
    # The longest ending first: a shorter one may be the output of another recipe.
    for length in range(len(parts), 0, -1):
        ending = "/".join(parts[-length:])
        recipe = _recipes_of_outputs().get(ending)
        if recipe is not None:
            return ending, recipe
    return None


@cache
def _recipes_of_outputs() -> dict[str, str]:
    """Return the recipe of each file that a shipped recipe writes."""
    import yaml

    return {
        output: file.stem
        for file in sorted(RECIPES.glob("*.yaml"))
        for output in yaml.safe_load(file.read_text(encoding="utf-8"))["outputs"]
    }
