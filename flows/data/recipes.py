"""Recipes of public data sets: origin, licence, preparation and the files that result, one YAML file each.

The shipped recipes are in `connectors/data/recipes`; a user can write others. Reading a recipe fetches nothing.
"""

from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from connectors.interfaces.counts import sized
from connectors.interfaces.errors import ConfigError, nearest
from connectors.rows.recipe_outputs import RECIPES, recipe_for
from flows.config.files import check_config
from flows.config.form import Strict
from flows.config.yaml_files import read_yaml
from flows.data.steps import Step

__all__ = ["Output", "Recipe", "Source", "SourceFile", "read_recipe", "recipe_for", "recipe_names"]

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
BlobId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


def _check_output_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    # A hidden name could be one of the files that `wasp data` keeps for itself.
    if not parts or path.startswith("/") or any(part.startswith(".") for part in parts):
        raise ValueError("must be a path below the data folder, without '..' and hidden names")
    if not path.endswith(".parquet"):
        raise ValueError("must end in .parquet")
    return path


OutputPath = Annotated[str, AfterValidator(_check_output_path)]


class SourceFile(Strict):
    """One file at its origin, with the digest that it must have."""

    path: str = Field(min_length=1, description="Path below the base of its source.")
    bytes: int | None = Field(
        None, ge=1, description="Size. Empty: not known before the origin states it."
    )
    sha256: Sha256 | None = Field(None, description="SHA-256 of the file.")
    git_blob: BlobId | None = Field(
        None,
        description="Id of the file in its git repository (SHA-1 of size and content), where no SHA-256 is known.",
    )
    members_sha256: Sha256 | None = Field(
        None,
        description="For an archive: SHA-256 of the list of its members. GitHub packs an archive again for each "
        "request, so its bytes may change while its files do not.",
    )
    columns: dict[str, str | int] = Field(
        {}, description="Columns that the rows of this file get, such as the model that wrote them."
    )

    @property
    def is_pinned(self) -> bool:
        """True if the recipe states a digest of the whole file."""
        return self.sha256 is not None or self.git_blob is not None


class Source(Strict):
    """Files of one format below one address; their rows follow each other."""

    base: str = Field(
        min_length=1,
        description="Address of the folder: https://, file:// or another one that fsspec opens.",
    )
    format: Literal["csv", "jsonl", "lines", "xlsx", "parquet", "archive"] = Field(
        description="csv and jsonl (also .gz), lines of a text (column `line`), the first sheet of an Excel file, "
        "Parquet, or an archive (tar, zip) of texts (columns `path` and `text`)."
    )
    header: list[str] | None = Field(
        None, min_length=1, description="Columns of a CSV file without a header."
    )
    members: str | None = Field(
        None,
        description="For an archive: regular expression of the members to read. Its match is `path`; named groups "
        "are columns.",
    )
    member_encoding: Literal["utf-8", "cp1252"] = Field(
        "utf-8", description="Encoding of the members of an archive."
    )
    files: list[SourceFile] = Field(min_length=1)

    @model_validator(mode="after")
    def _members_fit(self) -> Self:
        if (self.members is not None) != (self.format == "archive"):
            raise ValueError("members: must be set for an archive, and only then")
        return self

    def address(self, file: SourceFile) -> str:
        """Return the address of a file."""
        return f"{self.base.rstrip('/')}/{file.path}"


class Output(Strict):
    """One file of the data folder."""

    table: str = Field(description="Name of the table that it contains.")
    rows: int | None = Field(None, ge=1, description="Number of rows. Empty: not known yet.")
    digest: Sha256 | None = Field(
        None,
        description="Digest of its rows, independent of their order and of the writer of the file. Empty: not known "
        "yet; `wasp data` prints it.",
    )


class Recipe(Strict):
    """A public data set: where it comes from, under which licence, and how its files are made."""

    title: str = Field(min_length=1)
    about: str = Field(
        min_length=1, description="Short description: contents, and differences to its source."
    )
    licence: str = Field(min_length=1, description="Licence as the origin states it.")
    citation: str = Field(min_length=1, description="Publication to cite.")
    sources: dict[str, Source] = Field(min_length=1)
    tables: dict[str, list[Step]] = Field(
        min_length=1, description="Steps of each table, in order; the first reads a source."
    )
    outputs: dict[OutputPath, Output] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        earlier: set[str] = set()
        for table, steps in self.tables.items():
            for number, step in enumerate(steps, 1):
                where = f"tables.{table}, step {number}"
                for source in step.sources:
                    if source not in self.sources:
                        raise ValueError(f"{where}: there is no source '{source}'")
                # An earlier table only: then no table needs itself.
                for name in step.tables:
                    if name not in earlier:
                        raise ValueError(f"{where}: there is no table '{name}' before this one")
            earlier.add(table)
        for path, output in self.outputs.items():
            if output.table not in self.tables:
                raise ValueError(f"outputs.{path}: there is no table '{output.table}'")
        return self

    @cached_property
    def files(self) -> list[tuple[Source, SourceFile]]:
        """All files to fetch, with their sources."""
        return [(source, file) for source in self.sources.values() for file in source.files]

    @property
    def size(self) -> int | None:
        """Bytes of all files at the origin; None if one is not known."""
        # By address: two sources may read different members of one archive.
        sizes = list({source.address(file): file.bytes for source, file in self.files}.values())
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return sum(known)

    @property
    def size_text(self) -> str:
        """The size of all files for a reader."""
        if self.size is None:
            return "size not known before the transfer"
        return sized(self.size)


def recipe_names() -> list[str]:
    """Return the names of the shipped recipes."""
    return sorted(file.stem for file in RECIPES.glob("*.yaml"))


def read_recipe(name: str) -> Recipe:
    """Return the recipe of a shipped name, or of the path of a recipe file.

    ConfigError if there is none, or with each invalid field and its line.
    """
    path = RECIPES / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name)
    elif not path.is_file():
        names = recipe_names()
        raise ConfigError(
            f"{name}: there is no such recipe.{nearest(name, names)} Shipped: {', '.join(names)}. For a set of "
            "your own, write the path of its recipe: wasp data ./mine.yaml"
        )
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: is not a recipe. Write title, sources, tables and outputs")
    return check_config(Recipe, values, str(path))
