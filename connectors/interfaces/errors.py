"""Errors that a user can act on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from connectors.interfaces.packages import install_command


class WaspError(Exception):
    """Base of every error that a user can act on; `exit_code` is what the command returns."""

    exit_code: ClassVar[int] = 1


_IN_STEP = "In step "


def in_step(error: BaseException, step: str) -> None:
    """Note in which step an error arose, if no inner one did."""
    if not step_of(error):
        error.add_note(f"{_IN_STEP}{step}")


def step_of(error: BaseException) -> str:
    """Return the step in which an error arose, '' if it is not known."""
    notes = getattr(error, "__notes__", [])
    return next((note.removeprefix(_IN_STEP) for note in notes if note.startswith(_IN_STEP)), "")


class ConfigError(WaspError):
    """The configuration cannot be run: says which field and what to write instead."""

    exit_code: ClassVar[int] = 2


class ProblemsError(ConfigError):
    """Several things are wrong with one configuration: a line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,), self.__dict__


class MissingPackageError(ConfigError):
    """A package of an extra is not installed; the message is the install command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"The package '{package}' is not installed. Type: {install_command(extra)}")
        self.package, self.extra = package, extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.extra), self.__dict__


class InputError(ConfigError):
    """A file that may be talked about (test rows, a task file) is wrong: file, row, field, what to do."""


class NoRowsError(InputError):
    """A source of rows can be read and holds none."""


class PlaceError(InputError):
    """Rows cannot be reached: the words are about the place and never from inside it, so they may always be shown."""


class PrivateInputError(ConfigError):
    """Private rows are wrong: a code and where their owner finds the details, nothing from the rows."""

    def __init__(self, code: str, details: Path, source: str = "") -> None:
        of = f" of {source}" if source else ""
        super().__init__(
            f"Private rows{of} were refused ({code}). Their owner finds row numbers and reasons in {details}."
        )
        self.code = code
        self.details = details
        self.source = source

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.details, self.source), self.__dict__


class BudgetError(WaspError):
    """A dataset's privacy budget does not suffice; nothing was spent. The numbers and the next move.

    `dataset`: whose cap would be passed; of the datasets of a `group` it may be another one than was asked for.
    """

    exit_code: ClassVar[int] = 3

    def __init__(
        self,
        needs: float,
        left: float,
        missing: float,
        dataset: str = "",
        cap: float | None = None,
        group: str = "",
    ) -> None:
        of = "" if cap is None else f" of the cap {cap:.4g}"
        same = f" (group '{group}': what one of its datasets releases is charged to all of them)" if group else ""
        super().__init__(
            f"Dataset '{dataset}'{same}: needs epsilon {needs:.4g}, left {left:.4g}{of}, missing {missing:.4g}. "
            "Nothing was spent. Lower privacy.epsilon, or ask the data owner to raise the cap: "
            f"wasp budget cap {dataset} --epsilon E"
        )
        self.needs, self.left, self.missing = needs, left, missing
        self.dataset, self.cap, self.group = dataset, cap, group

    def __reduce__(self) -> tuple[Any, ...]:
        numbers = (self.needs, self.left, self.missing, self.dataset, self.cap, self.group)
        return type(self), numbers, self.__dict__


class DeltaBudgetError(BudgetError):
    """Trainings by DP-SGD have a delta of their own each, and a dataset's cap has not enough of it left."""

    def __init__(self, own: float, delta: float, needs: float, left: float, dataset: str = "") -> None:
        super().__init__(needs, left, math.inf, dataset)
        self.args = (
            f"Dataset '{dataset}': trainings by DP-SGD take {own:.3g} of the cap's delta {delta:.3g} for themselves, "
            "and what else is released needs a part of it too. Nothing was spent. Lower privacy.delta, or ask the data "
            f"owner to raise the cap's delta: wasp budget cap {dataset} --epsilon E --delta D",
        )
        self.own, self.delta = own, delta

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.own, self.delta, self.needs, self.left, self.dataset), self.__dict__


class MoneyError(WaspError):
    """The money cap would be passed by the next call; nothing more was asked."""

    exit_code: ClassVar[int] = 4


class ApprovalError(WaspError):
    """A person refused the plan, or nobody approved it in time; nothing was spent."""

    exit_code: ClassVar[int] = 5


class LedgerError(WaspError):
    """The budget book cannot be trusted or reached: fail closed, no private row was opened."""


class LostArtifactsError(LedgerError):
    """A release of this slot exists for other candidates; asking again would be a second, paid release."""


class ArtifactError(WaspError):
    """An artifact on disk is missing, damaged or cannot be written."""


class AuditError(WaspError):
    """An audit proved more than is claimed, or found noise or releases that should not be: what, and what to do."""


class PartyError(WaspError):
    """A party of a federation did not send what a round needs: `party` says who, the message what and what to do."""

    def __init__(self, party: str, problem: str) -> None:
        super().__init__(f"Party '{party}' {problem}")
        self.party, self.problem = party, problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.party, self.problem), self.__dict__


class TemporaryError(WaspError):
    """Worth another try; `retry_after` is the other side's wish in seconds, None if it gave none."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooFewTextsError(WaspError):
    """Too few usable texts were written for a release, which was not drawn: reasons by class and model."""


class FinalError(WaspError):
    """No further try of this model can succeed (bad key, no such model)."""
