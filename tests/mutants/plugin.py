"""Mutations of modules, and the finder that imports a module with its mutation."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

import yaml

from tests.support.paths import ROOT

CATALOGUE = Path(__file__).with_name("catalogue.yaml")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A replacement of text in one file, and the tests that must notice it."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def module(self) -> str:
        """Name of the mutated module."""
        return self.file.removesuffix(".py").replace("/", ".")

    def problem(self) -> str:
        """Return the reason why the mutation does not fit the source; empty if it fits."""
        path = ROOT / self.file
        result = path.read_text(encoding="utf-8").count(self.before) if path.exists() else 0
        return (
            ""
            if result == 1
            else f"its text occurs {result} times in {self.file}; write the present text"
        )

    def source(self) -> str:
        """Return the mutated source; ValueError if the mutation does not fit."""
        if self.problem():
            raise ValueError(f"{self.name}: {self.problem()}")
        return (ROOT / self.file).read_text(encoding="utf-8").replace(self.before, self.after)


def read_catalogue() -> list[Mutant]:
    """Return all mutations; ValueError if two have the same name."""
    entries = yaml.safe_load(CATALOGUE.read_text(encoding="utf-8"))
    mutants = [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    names = [mutant.name for mutant in mutants]
    if len(set(names)) < len(names):
        raise ValueError("Two mutations have the same name.")
    return mutants


class MutantFinder(importlib.abc.MetaPathFinder):
    """Finds the mutated module before any other finder."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the mutated module, None for all others."""
        if fullname != self.mutant.module:
            return None
        location = str(ROOT / self.mutant.file)
        loader = MutantLoader(fullname, location, self.mutant)
        return importlib.util.spec_from_file_location(fullname, location, loader=loader)


class MutantLoader(importlib.machinery.SourceFileLoader):
    """Compiles the mutated source and neither reads nor writes bytecode."""

    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled mutated source."""
        return compile(self.mutant.source(), self.path, "exec", dont_inherit=True)


def install(mutant: Mutant) -> None:
    """Let this process import the mutated module; RuntimeError if it has imported the sound one."""
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} was imported before its mutation.")
    sys.meta_path.insert(0, MutantFinder(mutant))
