"""Obtain a public data set: agreement, transfer, check, preparation, files of the data folder."""

import hashlib
import json
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from connectors.artifacts.atomic_files import locked, make_folder, write_text_whole
from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ArtifactError, ConfigError, InputError, MissingPackageError
from connectors.interfaces.json_values import Json
from flows.data.download import Downloads, Fetched
from flows.data.preparation import build_tables, check_outputs, file_digest, write_rows
from flows.data.readers import read_file
from flows.data.recipes import Recipe, Source
from flows.data.rows import Row, Rows
from flows.runtime.library_output import terminal

OWN = ".wasp-data"
"""Folder of raw files and agreements inside the data folder; readers of folders skip its name."""


WIDTH = 100
"""Characters of a line of a description."""


@dataclass(frozen=True, slots=True)
class Obtained:
    """The files of a recipe that are in the data folder now.

    Attributes:
        files: digest of the rows of each file.
        was_present: True if nothing was fetched.
        first_uses: raw files whose digest nobody stated, with the one that was seen.
    """

    name: str
    files: dict[str, str]
    was_present: bool = False
    first_uses: dict[str, str] = field(default_factory=dict)


class DataFolder:
    """The folder of public data sets.

    Args:
        path: the folder; it is created.
        mirror: copies of the origins, see `Downloads`.
        replace: True replaces files that have other rows than the recipe makes.
    """

    def __init__(self, path: Path, mirror: str | None = None, replace: bool = False) -> None:
        self.path = path.absolute()
        self.downloads = Downloads(self.path / OWN / "raw", mirror)
        self._replace = replace

    def present(self, recipe: Recipe) -> dict[str, str] | None:
        """Return the digests of a recipe's files; None if one is missing or is not known to be right."""
        right = self._right(recipe)
        if right is None or len(right) < len(recipe.outputs):
            return None
        return right

    def _right(self, recipe: Recipe) -> dict[str, str] | None:
        """Return the digests of the files of a recipe that are there; None if one is not known to be right."""
        recorded = self._recorded()
        digests = {}
        for output, expected in recipe.outputs.items():
            path = self.path / output
            if not path.is_file():
                continue
            digest, _ = file_digest(path)
            known = expected.digest
            if known is None and recorded.get(output, {}).get("recipe") == _identity(recipe):
                known = recorded[output]["digest"]
            if digest != known:
                return None
            digests[output] = digest
        return digests

    def state(self, recipe: Recipe) -> str:
        """Return `present`, `missing`, `in part`, or `other rows` if a file has other rows than the recipe makes."""
        if not any((self.path / output).exists() for output in recipe.outputs):
            return "missing"
        try:
            right = self._right(recipe)
        except InputError:  # a damaged file must not hide the other sets
            right = None
        if right is None:
            return "other rows"
        return "present" if len(right) == len(recipe.outputs) else "in part"

    def obtain(self, name: str, recipe: Recipe, agree: Callable[[str], bool | None]) -> Obtained:
        """Fetch and prepare a data set unless it is present.

        Args:
            name: name of the recipe.
            recipe: the recipe.
            agree: shows a text and returns the user's decision; None without a terminal.

        Raises:
            ConfigError: the user did not agree, or a file with other rows is in the way.
            InputError: a digest is wrong, or the origin has no such file.
        """
        try:
            present = self.present(recipe)
            if present is not None:
                return Obtained(name, present, was_present=True)
            self._refuse_other_files(recipe)
            _check_packages(recipe)
            make_folder(self.path / OWN)
            self._require_agreement(name, recipe, agree)
            return self._fetch_and_prepare(name, recipe)
        except (OSError, ArtifactError) as error:
            # Not the message of stored runs, whose advice is about the state folder.
            reason = getattr(error.__cause__ or error, "strerror", None) or error
            raise ArtifactError(
                f"{self.path}: cannot be used ({reason}). Free space, or name another folder with --to; then run "
                "the command again"
            ) from error

    def _fetch_and_prepare(self, name: str, recipe: Recipe) -> Obtained:
        fetched = {}
        for number, (source, file) in enumerate(recipe.files, 1):
            prefix = f"{number}/{len(recipe.files)} "
            fetched[source.address(file)] = self.downloads.fetch(source, file, prefix)
        # One process prepares at a time; the other one finds the files afterwards.
        with locked(self.path / OWN / "prepare.lock"):
            present = self.present(recipe)
            if present is not None:
                return Obtained(name, present, was_present=True)
            digests = self._prepare(recipe)
        return Obtained(name, digests, first_uses=_first_uses(fetched))

    def _refuse_other_files(self, recipe: Recipe) -> None:
        """Refuse to replace files that another program or version made; a run may depend on them."""
        recorded = self._recorded()
        for output, expected in recipe.outputs.items():
            path = self.path / output
            if self._replace or not path.is_file():
                continue
            digest, rows = file_digest(path)
            # A set is whole only with all files: those that this command wrote before are its own.
            own = recorded.get(output, {}).get("digest")
            if digest not in (expected.digest, own):
                raise ConfigError(
                    f"{path}: exists with other rows ({rows}, digest {digest[:12]}) than the recipe makes. It was not "
                    "changed. Use another folder with --to, or replace it with --replace"
                )

    def _require_agreement(
        self, name: str, recipe: Recipe, agree: Callable[[str], bool | None]
    ) -> None:
        path = self.path / OWN / "agreements.json"
        key = _agreement(recipe)
        if key in _read_json(path):
            return
        decision = agree(describe(name, recipe, self.path))
        if decision is None:
            raise ConfigError(
                f"{name}: its licence needs your agreement, and there is no terminal. Read it above, then add --yes to "
                "the command"
            )
        if not decision:
            raise ConfigError(f"{name}: you did not agree to its licence. Nothing was fetched")
        entry = {"recipe": name, "licence": recipe.licence, "agreed": _now()}
        _add_to_json(path, {key: entry})

    def _prepare(self, recipe: Recipe) -> dict[str, str]:
        tables = build_tables(recipe, self._read)
        # All are checked before the first is written: a set of two versions would be worse than none.
        digests = dict(check_outputs(recipe, tables))
        # Before the files: a process that is killed here must not leave files that the next one takes for others'.
        entries = {
            output: {"recipe": _identity(recipe), "digest": digest, "prepared": _now()}
            for output, digest in digests.items()
        }
        _add_to_json(self.path / OWN / "files.json", entries)
        for output in digests:
            write_rows(self.path / output, tables[recipe.outputs[output].table])
        return digests

    def _read(self, source: Source) -> Rows:
        rows: Rows = []
        for file in source.files:
            path = self.downloads.stored(source, file)
            columns: Row = {**file.columns}
            rows.extend(row | columns for row in read_file(source, path, source.address(file)))
        return rows

    def _recorded(self) -> Json:
        return _read_json(self.path / OWN / "files.json")


def describe(name: str, recipe: Recipe, folder: Path) -> str:
    """Return what a user must know before the first byte: origin, size, licence, citation and folder."""
    files = {source.address(file) for source, file in recipe.files}
    origins = [
        # The whole address of a single file: that of an archive contains its version.
        source.address(source.files[0]) if len(source.files) == 1 else source.base
        for source in recipe.sources.values()
    ]
    lines = [
        ("contents", recipe.about),
        *(("origin", base) for base in dict.fromkeys(origins)),
        ("size", f"{counted(len(files), 'file')}, {recipe.size_text}"),
        ("licence", recipe.licence),
        ("cite", recipe.citation),
        ("folder", str(folder)),
    ]
    return "\n".join([f"{name}: {recipe.title}", *(_field(title, text) for title, text in lines)])


def _field(title: str, text: str) -> str:
    """Return a line of a description, wrapped below itself; an address stays whole."""
    return textwrap.fill(
        " ".join(text.split()),
        width=WIDTH,
        initial_indent=f"  {title:<10} ",
        subsequent_indent=" " * 13,
        break_long_words=False,
        break_on_hyphens=False,
    )


def confirm_on_terminal(text: str, accepted: bool = False) -> bool | None:
    """Show a text on standard error and return the decision; None without a terminal."""
    # Library output on standard error is hidden while a command runs; this text must be seen.
    print(text, file=terminal(), flush=True)
    if accepted:
        return True
    if not sys.stdin.isatty():
        return None
    print("Fetch it and use it under this licence? [y/N] ", end="", file=terminal(), flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _check_packages(recipe: Recipe) -> None:
    """Raise MissingPackageError before anything is fetched that could not be read."""
    is_excel = any(source.format == "xlsx" for source in recipe.sources.values())
    if is_excel and find_spec("openpyxl") is None:
        raise MissingPackageError("openpyxl", "data")


def _first_uses(fetched: dict[str, Fetched]) -> dict[str, str]:
    return {address: file.digest for address, file in fetched.items() if file.is_first_use}


def _identity(recipe: Recipe) -> str:
    """Return a digest of all that determines the files."""
    values = recipe.model_dump(mode="json", include={"sources", "tables", "outputs"})
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _agreement(recipe: Recipe) -> str:
    """Return a digest of all that a user agrees to."""
    bases = sorted(source.base for source in recipe.sources.values())
    return hashlib.sha256(json.dumps([recipe.licence, bases]).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_json(path: Path) -> Json:
    try:
        values: Json = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path}: is not JSON ({error}). Remove it") from error
    return values


def _add_to_json(path: Path, values: Json) -> None:
    """Add entries to a file that other processes may change at the same time."""
    with locked(path.with_name(f"{path.name}.lock")):
        write_text_whole(path, json.dumps(_read_json(path) | values, indent=1, sort_keys=True))
