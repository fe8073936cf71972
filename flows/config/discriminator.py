"""Typed parameters of the discriminator: teachers, noisy labels, a student."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from flows.config.execution import Recipe, Transformer
from tasks.students.spec import StudentSpec


class Discriminator(Recipe):
    """Settings of a classifier that selects private-looking texts (Song et al. 2024)."""

    teachers: int = Field(
        15, ge=1, le=1000, description="Number of teachers, each trained on its own shard of the private data (M)."
    )
    queries: int = Field(
        1000,
        ge=2,
        le=400_000,
        description="Texts that the teachers label: generated ones, and as many rows of `public` if it is set. Noise "
        "grows with the square root of their number.",
    )
    noise: Literal["gaussian", "laplace"] = Field(
        "gaussian", description="gaussian: least noise, needs delta; laplace: delta 0, far more noise (ablation)."
    )
    kind: Literal["linear", "mlp", "finetune"] = Field(
        "linear", description="Teachers and student: a head on frozen embeddings, or a fine-tuned transformer."
    )
    model: Transformer = "embedded"
    epochs: int = Field(3, ge=1, le=1000, description="Epochs, without a validation split. Not for linear.")

    def student(self, seed: int) -> StudentSpec:
        """Return the training settings of teachers and student, without validation."""
        return StudentSpec(self.kind, self.model, epochs=self.epochs, validation_share=0.0, seed=seed, **self.recipe)


class Filter(Discriminator):
    """Settings of a discriminator that filters the texts of another method."""

    keep: float = Field(0.5, gt=0, le=1, description="Share of the texts to keep.")
