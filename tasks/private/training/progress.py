"""How far a training has come, kept so that a crash neither repeats a step for free nor spends twice.

A step is counted before its rows are drawn. After a crash the weights go on from the last checkpoint, while the count
goes on from the last step that began: what was lost between the two was seen by nobody who keeps to the rules, but a
dump of the memory may hold it, so it stays spent and is not made up for. A training that was killed ends with fewer
steps in its weights, never with more in its cost.

Whoever puts an older copy of this folder back makes steps happen twice that are counted once. Do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from connectors.interfaces.errors import LostArtifactsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]


class PrivateStore(Protocol):
    """Where arrays of the private zone lie (part of `connectors.interfaces.artifacts.ArtifactStore`)."""

    def write_private_arrays(self, path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write whole or not at all."""

    def read_private_arrays(self, path: str) -> dict[str, NDArray[Any]] | None:
        """Read, None when there are none."""


@dataclass(slots=True)
class StepsTaken:
    """The count and the checkpoint of one paid training, in a folder of the private zone.

    `token` names the payment: a folder that belongs to another one is not gone on with. `begun`: steps that were
    begun since it was paid, lost ones included.
    """

    store: PrivateStore
    folder: str
    token: str
    begun: int = 0

    @classmethod
    def start(cls, store: PrivateStore, folder: str, token: str) -> StepsTaken:
        """Write down that a training may begin; the ledger line follows in the same transaction."""
        taken = cls(store, folder, token)
        taken._count()
        return taken

    @classmethod
    def find(cls, store: PrivateStore, folder: str, token: str) -> StepsTaken | None:
        """Return the count of the training that was paid with `token`, None if it is not on this machine."""
        kept = store.read_private_arrays(f"{folder}/steps.npz")
        if kept is None or str(kept["token"]) != token:
            return None
        return cls(store, folder, token, int(kept["begun"]))

    def begin(self) -> None:
        """Count one more step; returns when that is on the disk."""
        self.begun += 1
        self._count()

    def keep(self, weights: Arrays, taken: int) -> None:
        """Keep the weights (and what the optimizer remembers) after `taken` steps."""
        about = {"token": np.array(self.token), "taken": np.array(taken)}
        self.store.write_private_arrays(f"{self.folder}/checkpoint.npz", {**weights, **about})

    def forget(self) -> None:
        """Drop the weights once they lie where results lie; the count stays."""
        self.keep({"forgotten": np.array(True)}, 0)

    @property
    def forgotten(self) -> bool:
        """Whether the weights were dropped: this training cannot go on."""
        found = self.store.read_private_arrays(f"{self.folder}/checkpoint.npz")
        return found is not None and "forgotten" in found

    def kept(self) -> tuple[dict[str, NDArray[Any]], int] | None:
        """Return the latest checkpoint and the steps in it, None before the first.

        Raises LostArtifactsError for the checkpoint of another payment.
        """
        found = self.store.read_private_arrays(f"{self.folder}/checkpoint.npz")
        if found is None:
            return None
        if str(found.pop("token")) != self.token:
            raise LostArtifactsError("The checkpoint in the private zone belongs to another training; delete it.")
        return found, int(found.pop("taken"))

    def _count(self) -> None:
        arrays = {"token": np.array(self.token), "begun": np.array(self.begun)}
        self.store.write_private_arrays(f"{self.folder}/steps.npz", arrays)
