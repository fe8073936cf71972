"""Public data files that the comparisons of a reproduction read, and the recipes that make them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from connectors.interfaces.errors import InputError
from connectors.rows.recipe_outputs import find_output
from flows.compare.cells import Cell
from flows.config.base import AnyConfig
from flows.config.paths import FILES, resolve_path, vocabulary_of
from flows.data.preparation import file_digest
from flows.data.recipes import read_recipe
from tasks.reporting.reproduction import DataFile


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A file that a shipped recipe makes: its path here, its path below the data folder, the recipe's name."""

    path: Path
    output: str
    recipe: str

    @property
    def folder(self) -> Path:
        """The data folder."""
        return self.path.parents[len(PurePosixPath(self.output).parts) - 1]


def recipe_files(cells: Iterable[Cell]) -> list[RecipeFile]:
    """Return the files of shipped recipes that some cells read, each once; files of no recipe are left out."""
    paths = {
        resolve_path(name, cell.config.data_root): None for cell in cells for name in _names(cell)
    }
    files = []
    for path in paths:
        made_by = find_output(path)
        if made_by is not None:
            output, recipe = made_by
            files.append(RecipeFile(Path(path).expanduser().absolute(), output, recipe))
    return files


def missing_sets(files: Iterable[RecipeFile]) -> dict[tuple[str, Path], list[str]]:
    """Return the missing files by recipe and data folder."""
    missing: dict[tuple[str, Path], list[str]] = {}
    for file in files:
        if not file.path.exists():
            missing.setdefault((file.recipe, file.folder), []).append(file.output)
    return missing


def digests(files: Iterable[RecipeFile], known: dict[Path, DataFile]) -> tuple[DataFile, ...]:
    """Return the present files with the digests of their rows; `known` remembers them.

    All are public: a recipe fetches nothing else.
    """
    for file in files:
        if file.path not in known and file.path.exists():
            known[file.path] = _digest(file)
    return tuple(known.values())


def digests_of(cell: Cell, known: dict[Path, DataFile]) -> dict[str, str]:
    """Return the digests of the files of recipes that a cell reads, by path in the data folder; `known`: as above."""
    files = recipe_files([cell])
    digests(files, known)
    return {file.output: known[file.path].digest for file in files if file.path in known}


def other_rows(data: Iterable[tuple[str, str]]) -> list[str]:
    """Return the files, of pairs with a digest of their rows, whose recipes state another digest."""
    others = set()
    for output, digest in data:
        made_by = find_output(output)
        # The recipe may be gone, or state no digest.
        stated = made_by and read_recipe(made_by[1]).outputs[output].digest
        if stated and digest != stated:
            others.add(output)
    return sorted(others)


def _digest(file: RecipeFile) -> DataFile:
    stated = read_recipe(file.recipe).outputs[file.output].digest
    try:
        digest, rows = file_digest(file.path)
    except InputError:  # the runs that read it fail with the reason
        return DataFile(file.output, 0, "not readable", file.recipe, False)
    is_recipe = None if stated is None else digest == stated
    return DataFile(file.output, rows, digest, file.recipe, is_recipe)


def _names(cell: Cell) -> Iterator[str]:
    """Yield the paths that a cell reads, as its configuration names them."""
    config: AnyConfig = cell.config
    if config.private is not None and config.private.dataset is None:
        yield config.private.path
    if cell.partition is not None:
        yield cell.partition.path
    for rows in config.open_rows.values():
        yield rows.path
    vocabulary = vocabulary_of(config)
    if vocabulary is not None:
        yield vocabulary.path
    for plm in config.models:
        if plm.connector in FILES and plm.model:
            yield plm.model
