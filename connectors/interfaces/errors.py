"""Errors that a user can act on.

    WaspError                       exit code 1
    |- ConfigError                  2: nothing was read or spent
    |  |- ProblemsError             several problems, one line each
    |  |- MissingPackageError       an extra that is not installed
    |  |- InputError                a faulty file that is not private
    |  |  |- EncodingError          bytes that are not UTF-8
    |  |  |- NoRowsError            no rows
    |  |  `- PlaceError             an unreachable source of rows
    |  |- NoFittingRowsError        no row fits the task
    |  `- PrivateInputError         invalid private rows: a code, never content
    |- BudgetError                  3: not enough privacy budget, nothing was spent
    |  |- DeltaBudgetError          not enough delta for trainings
    |  `- PartBudgetError           not enough in one part of a divided cap
    |- MoneyError                   4: the next call would exceed the spending limit
    |- ApprovalError                5: rejected, or not approved in time
    |- LedgerError                  the privacy ledger is unreachable or inconsistent
    |  `- LostArtifactsError        a slot that was released for other candidates
    |- ArtifactError                a file that is missing, damaged or not writable
    |- AuditError                   a claim that an audit disproved
    |- UncheckedError               a check that could not be made, which stops nothing
    |- PartyError                   a party that did not send its data
    |- TemporaryError               worth a retry
    |- TooFewTextsError             too few texts for a release, which was not drawn
    `- FinalError                   no retry of this model can help
       `- ModelsDownError           every model of the run is down

Connectors raise errors of their own below these: `CallFailed` and `EndpointRefusal` of language models.
"""

import difflib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from connectors.interfaces.packages import install_command


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a question with the name that resembles a misspelt one, with a space before it; empty if none does."""
    for near in difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff):
        return f" Did you mean '{near}'?"
    return ""


class WaspError(Exception):
    """Base of all errors that a user can act on.

    `exit_code` is the command's exit code.
    """

    exit_code: ClassVar[int] = 1

    # By default, pickle calls the constructor with the message, which most of these errors do not take.
    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[WaspError], arguments: tuple[object, ...]) -> WaspError:
    """Return an error from another process with its message, whatever its constructor takes."""
    return kind.__new__(kind, *arguments)


_IN_STEP = "In step "


def in_step(error: BaseException, step: str) -> None:
    """Add a note with the step in which an error occurred, unless it has one."""
    if not step_of(error):
        error.add_note(f"{_IN_STEP}{step}")


def step_of(error: BaseException) -> str:
    """Return the step in which an error occurred, '' if unknown."""
    notes = getattr(error, "__notes__", [])
    return next((note.removeprefix(_IN_STEP) for note in notes if note.startswith(_IN_STEP)), "")


class ConfigError(WaspError):
    """An invalid configuration: the message has the field and a correction."""

    exit_code: ClassVar[int] = 2


class ProblemsError(ConfigError):
    """Several problems in one configuration, one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class MissingPackageError(ConfigError):
    """A missing package of an extra; the message contains the install command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"The package '{package}' is not installed. Run: {install_command(extra)}")
        self.package = package
        self.extra = extra


class InputError(ConfigError):
    """A faulty file that is not private (test rows, a task file).

    The message has the file, the row, the field and a correction.
    """


class EncodingError(InputError):
    """A file with bytes that are not UTF-8; the message has the first such line."""


class NoRowsError(InputError):
    """A readable source that has no rows."""


class NoFittingRowsError(ConfigError):
    """Rows of which none has a text and a class of the task."""


class PlaceError(InputError):
    """An unreachable source of rows.

    The message describes the location and never its content, so it can always be shown.
    """


class PrivateInputError(ConfigError):
    """Invalid private rows: an error code and the path of the details for their owner.

    The message contains nothing from the rows.
    """

    def __init__(self, code: str, details: Path, source: str = "") -> None:
        of = ""
        if source:
            of = f" of {source}"
        super().__init__(
            f"Private rows{of} were refused ({code}). Row numbers and reasons are in {details}."
        )
        self.code = code
        self.details = details
        self.source = source


NO_OWNER = "No owner set this cap"


class UncheckedError(WaspError):
    """A check that could not be made, such as of an unreachable list; the message says what is not known."""


class BudgetError(WaspError):
    """An insufficient privacy budget; nothing was spent.

    The message has the amounts and the next action. `dataset`: the dataset whose cap would be exceeded; within a
    `group` it can differ from the requested dataset. `default`: no owner set the cap, it is the ledger's.
    """

    exit_code: ClassVar[int] = 3
    default = False

    def __init__(
        self,
        needs: float,
        left: float,
        missing: float,
        dataset: str = "",
        cap: float | None = None,
        group: str = "",
    ) -> None:
        of = same = total = ""
        if cap is not None:
            of = f" of the cap {cap:.4g}"
        if group:
            same = f" (group '{group}': a release from one dataset is charged to all)"
        # A reader who subtracts expects that needs - left is missing.
        if cap is not None and math.isfinite(missing) and needs - left > missing * (1 + 1e-3):
            total = f" (the total would be {cap + missing:.4g}: epsilons of several releases do not simply add up)"
        super().__init__(
            f"Dataset '{dataset}'{same}: needs epsilon {needs:.4g}, left {left:.4g}{of}, missing {missing:.4g}{total}. "
            "Nothing was spent. Lower privacy.epsilon, or let the data owner raise the cap: "
            f"wasp budget cap {dataset} --epsilon E"
        )
        self.needs = needs
        self.left = left
        self.missing = missing
        self.dataset = dataset
        self.cap = cap
        self.group = group

    def __str__(self) -> str:
        text = super().__str__()
        if not self.default or NO_OWNER in text:  # the message of a run repeats this text
            return text
        return f"{text}{default_cap_advice(self.dataset)}"


def default_cap_advice(dataset: str, declare: str = "") -> str:
    """Return the sentence for the owner of a dataset without a cap."""
    return (
        f". {NO_OWNER}: it is the ledger's default. If the rows are a public benchmark, lift it: "
        f"wasp budget cap {dataset} --epsilon inf{declare} --reason 'public benchmark'"
    )


class DeltaBudgetError(BudgetError):
    """A cap without enough delta left for DP-SGD trainings, which each have a delta."""

    def __init__(
        self, own: float, delta: float, needs: float, left: float, dataset: str = ""
    ) -> None:
        super().__init__(needs, left, math.inf, dataset)
        self.args = (
            f"Dataset '{dataset}': trainings by DP-SGD take {own:.3g} of the cap's delta {delta:.3g}, "
            "and the other releases need a part of it too. Nothing was spent. Lower privacy.delta, or let the data "
            f"owner raise the cap's delta: wasp budget cap {dataset} --epsilon E --delta D",
        )
        self.own = own
        self.delta = delta


class PartBudgetError(BudgetError):
    """A part of a divided cap, for trainings or for all other releases, that is too small.

    `part`: epsilon and delta of that part.
    """

    def __init__(
        self,
        needs: float,
        left: float,
        missing: float,
        dataset: str,
        trained: bool,
        part: tuple[float, float],
    ) -> None:
        super().__init__(needs, left, missing, dataset)
        kind = "releases other than trainings"
        if trained:
            kind = "trainings by DP-SGD"
        self.args = (
            f"Dataset '{dataset}': the part of the cap for {kind} is epsilon {part[0]:.4g} at delta {part[1]:.3g}; "
            f"needs epsilon {needs:.4g}, left {left:.4g}. The cap was divided before the first result, and no later "
            "plan can move budget between its parts. Nothing was spent. Let the data owner raise the cap: wasp budget "
            f"cap {dataset} --epsilon E --delta D --trainings-epsilon T --trainings-delta S",
        )
        self.trained = trained
        self.part = part


class MoneyError(WaspError):
    """A spending limit that the next call would exceed; no further call was made."""

    exit_code: ClassVar[int] = 4


class ApprovalError(WaspError):
    """A plan that was rejected or not approved in time; nothing was spent."""

    exit_code: ClassVar[int] = 5


class LedgerError(WaspError):
    """An unreachable or inconsistent privacy ledger: no private row is read."""


class LostArtifactsError(LedgerError):
    """A slot already released for other candidates; a new release costs again."""


class ArtifactError(WaspError):
    """An artifact on disk that is missing, damaged or not writable."""


class AuditError(WaspError):
    """An audit that disproved a claim or found unexpected noise or releases.

    The message has the finding and the next action.
    """


class PartyError(WaspError):
    """A party of a federation that did not send the data of a round.

    `party` is its name; the message has the problem and the next action.
    """

    def __init__(self, party: str, problem: str) -> None:
        super().__init__(f"Party '{party}' {problem}")
        self.party = party
        self.problem = problem


class TemporaryError(WaspError):
    """An error worth a retry; `retry_after` is the server's delay in seconds, if any."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooFewTextsError(WaspError):
    """Too few usable texts for a release, which was not drawn.

    The message has the reasons by class and model.
    """


class FinalError(WaspError):
    """An error that no retry of this model can fix (bad key, no such model)."""


class ModelsDownError(FinalError):
    """Every model of a run is down; the message has the reasons by model."""
