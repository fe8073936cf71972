"""Typed parameters of the discriminator: teachers on the private rows, their answers, a student."""

from __future__ import annotations

from functools import partial
from operator import is_
from typing import Literal, Self

from pydantic import Field, model_validator

from flows.config.form import Strict, rule
from tasks.students.spec import StudentSpec

NO_PERSONS = "protects single rows, because a person's rows may teach several teachers; write protects: record"


class Discriminator(Strict):
    """What tells private texts from generated ones, and keeps those that look private (Song et al. 2024)."""

    teachers: int = Field(
        15, ge=1, le=1000, description="Teachers, each on a shard of the private rows of its own (M)."
    )
    queries: int = Field(
        1000,
        ge=2,
        le=400_000,
        description="Generated texts that the teachers are asked about. Each costs: noise grows with their root.",
    )
    negatives: int = Field(
        500, ge=1, le=100_000, description="Most other generated texts that each teacher learns from beside its shard."
    )
    noise: Literal["gaussian", "laplace"] = Field(
        "gaussian", description="gaussian: least noise, delta; laplace: delta 0, far more noise (ablation)."
    )
    sure: float | None = Field(
        None,
        ge=0.5,
        le=1,
        exclude_if=partial(is_, None),
        description="Answer only queries of which a first noisy look says that at least this part of the teachers "
        "agree (Confident-GNMax). Empty: all are answered.",
    )
    answers: int | None = Field(
        None,
        ge=2,
        exclude_if=partial(is_, None),
        description="Most queries that are then answered, paid for whether or not so many are sure. Empty: half.",
    )
    checks_share: float = Field(
        0.3,
        gt=0,
        lt=1,
        exclude_if=lambda value: value == 0.3,
        description="Part of the discriminator's budget (of mu^2) for that first look.",
    )
    kind: Literal["linear", "mlp", "finetune"] = Field(
        "linear", description="Teachers and student: a head on frozen embeddings, or a fine-tuned transformer."
    )
    model: str = Field("embedded", description="Hub id or folder of the transformer; 'embedded': the demo's.")
    epochs: int = Field(3, ge=1, le=1000, description="Passes of each training; no rows are held back. Not for linear.")
    learning_rate: float | None = Field(
        None, gt=0, lt=1, exclude_if=partial(is_, None), description="Step size; empty: what suits the kind."
    )
    batch: int | None = Field(
        None, ge=1, le=4096, exclude_if=partial(is_, None), description="Rows of a step; empty: 32 texts, 128 vectors."
    )
    max_length: int | None = Field(
        None, ge=1, le=8192, exclude_if=partial(is_, None), description="Tokens of a text that are read; empty: 256."
    )
    choose: Literal["accepted", "best"] = Field(
        "accepted",
        description="accepted: any texts that the student takes for private (paper); best: the most private first.",
    )

    rules = rule("answers", {"type": "integer"}, {"sure": {"type": "number"}})

    @property
    def answered(self) -> int:
        """How many answers are paid for."""
        if self.sure is None:
            return self.queries
        return min(self.answers or max(2, self.queries // 2), self.queries)

    def student(self, seed: int) -> StudentSpec:
        """How teachers and student are trained: fixed passes, no row held back."""
        recipe = {"learning_rate": self.learning_rate, "batch": self.batch, "max_length": self.max_length}
        given = {name: value for name, value in recipe.items() if value is not None}
        return StudentSpec(self.kind, self.model, epochs=self.epochs, validation_share=0.0, seed=seed, **given)  # type: ignore[arg-type]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.answers is not None and self.sure is None:
            raise ValueError("answers is for sure: without it every query is answered; leave it out")
        if self.sure is not None and self.noise == "laplace":
            raise ValueError("sure: the noisy look is Gaussian; write noise: gaussian")
        return self


class Filter(Discriminator):
    """The discriminator behind another method."""

    keep: float = Field(0.5, gt=0, le=1, description="Part of the texts that is kept.")
