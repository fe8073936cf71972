"""Progress of a training on disk: after a crash no step is repeated for free and none is charged twice.

A step is counted before its rows are drawn. After a crash the weights resume from the last checkpoint, but the count
resumes from the last step that began. No honest observer saw the lost steps in between, but a memory dump may contain
them: they stay charged and are not repeated. A killed training ends with fewer steps in its weights, never with a
higher cost.

Do not restore an older copy of this folder: steps would be taken twice and counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.interfaces.errors import LostArtifactsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from connectors.artifacts.store import Artifacts

    Arrays = Mapping[str, NDArray[Any]]


@dataclass(slots=True)
class StepsTaken:
    """The step count and the checkpoint of one paid training, in a folder of the private zone.

    `token` identifies the payment; a folder of another payment is not resumed. `begun`: steps begun since the payment,
    including lost ones.
    """

    store: Artifacts
    folder: str
    token: str
    begun: int = 0

    @classmethod
    def start(cls, store: Artifacts, folder: str, token: str) -> StepsTaken:
        """Create a training's count; the ledger entry follows in the same transaction."""
        taken = cls(store, folder, token)
        taken._count()
        return taken

    @classmethod
    def find(cls, store: Artifacts, folder: str, token: str) -> StepsTaken | None:
        """Return the count of the training paid with `token`, None if not on this machine."""
        arrays = store.read_private_arrays(f"{folder}/steps.npz")
        if arrays is None or str(arrays["token"]) != token:
            return None
        return cls(store, folder, token, int(arrays["begun"]))

    def begin(self) -> None:
        """Count one more step; return when the count is on disk."""
        self.begun += 1
        # On disk before a row is drawn: a killed step is then counted.
        self._count()

    def save_checkpoint(self, weights: Arrays, taken: int) -> None:
        """Save the weights and the optimizer state after `taken` steps."""
        about = {"token": np.array(self.token), "taken": np.array(taken)}
        self.store.write_private_arrays(f"{self.folder}/checkpoint.npz", {**weights, **about})

    def forget(self) -> None:
        """Drop the checkpoint after the result is stored; the count stays."""
        # A mark, not a deleted file: without a checkpoint the training would resume from its first weights, with no
        # step left to take.
        self.save_checkpoint({"forgotten": np.array(True)}, 0)

    @property
    def forgotten(self) -> bool:
        """True if the checkpoint was dropped; this training cannot be resumed."""
        arrays = self.store.read_private_arrays(f"{self.folder}/checkpoint.npz")
        return arrays is not None and "forgotten" in arrays

    def checkpoint(self) -> tuple[dict[str, NDArray[Any]], int] | None:
        """Return the latest checkpoint and its number of steps, None before the first.

        Raises LostArtifactsError for the checkpoint of another payment.
        """
        arrays = self.store.read_private_arrays(f"{self.folder}/checkpoint.npz")
        if arrays is None:
            return None
        if str(arrays.pop("token")) != self.token:
            raise LostArtifactsError(
                "The checkpoint in the private zone belongs to another training; delete it."
            )
        return arrays, int(arrays.pop("taken"))

    def _count(self) -> None:
        arrays = {"token": np.array(self.token), "begun": np.array(self.begun)}
        self.store.write_private_arrays(f"{self.folder}/steps.npz", arrays)
