"""The promise of a run: epsilon, delta, neighbouring datasets, and the protected unit."""

from dataclasses import dataclass
from typing import Literal

from connectors.interfaces.errors import ConfigError
from tasks.accounting.composition import Adjacency

Aggregation = Literal["sum", "max", "mean"]
Protects = Literal["record", "person"]


@dataclass(frozen=True, slots=True)
class Promise:
    """The privacy promise of a run; every number is public.

    `epsilon`, `delta`: for all releases together, as requested; infinite epsilon means no protection, 0 that no private
    record is opened. `protects`: one record, or one person with at most `rows_per_person` records that `aggregation`
    joins.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = "add_remove"
    protects: Protects = "record"
    rows_per_person: int = 1
    aggregation: Aggregation = "max"

    def __post_init__(self) -> None:
        require(self.epsilon >= 0, "epsilon", "a positive number, or inf", self.epsilon)
        require(0 <= self.delta < 1, "delta", "a number between 0 and 1", self.delta)

    @property
    def unit(self) -> str:
        """The protected unit in words: a record, or a person with number of records and aggregation."""
        if self.protects == "record":
            return "record"
        return f"person (at most {self.rows_per_person} rows of each, joined by {self.aggregation})"


def require(condition: bool, field: str, expected: str, got: object) -> None:
    """Raise ConfigError for a field of `privacy`, with what to write, unless the condition holds."""
    if not condition:
        raise ConfigError(f"privacy.{field}: {got!r} is not allowed. Write {expected}.")
