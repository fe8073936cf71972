"""Typed parameters that every flow has: student, evaluation, tracking, limits, export, execution."""

from __future__ import annotations

from functools import partial
from operator import eq
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from flows.config.form import Strict, rule


def _unset(value: object) -> bool:
    return value is None


class StudentChoice(Strict):
    """The small task model (STM) that is trained on the result."""

    kind: Literal["finetune", "linear", "mlp"] = Field(
        "finetune", description="Fine-tuned transformer, or a linear / 3-layer head on frozen embeddings."
    )
    model: str = Field("embedded", description="Hub id or folder of the transformer; 'embedded': the demo's.")
    epochs: int = Field(5, ge=1, le=1000, description="Most epochs; stops early on synthetic validation texts.")
    learning_rate: float | None = Field(
        None, gt=0, lt=1, exclude_if=_unset, description="Step size; empty: what suits the kind. Not for linear."
    )
    batch: int | None = Field(
        None,
        ge=1,
        le=4096,
        exclude_if=_unset,
        description="Rows of a step; empty: 32 texts, 128 vectors. Not for linear.",
    )
    max_length: int | None = Field(
        None, ge=1, le=8192, exclude_if=_unset, description="Tokens of a text that are read; empty: 256. For finetune."
    )
    precision: Literal["auto", "float32"] = Field(
        "auto",
        exclude_if=partial(eq, "auto"),
        description="auto: passes in bfloat16 where the processor has it, faster by a third; float32: as on processors "
        "that have not. For finetune.",
    )
    adaptation: Literal["none", "coral", "density"] = Field(
        "none",
        exclude_if=partial(eq, "none"),
        description="coral: the student is fitted to real texts as well, whose labels are not looked at (Deep CORAL); "
        "not for kind linear. density: it learns from vectors of texts that were moved, class by class, to where the "
        "released density of wasp says that private rows lie; costs no budget, not for kind finetune.",
    )
    adaptation_from: Literal["public", "moments"] = Field(
        "public",
        exclude_if=partial(eq, "public"),
        description="public: the texts of `public`, used as they are; moments: the private rows, of which a noisy mean "
        "and covariance of vectors are released and paid for. moments is for kind mlp.",
    )
    adaptation_epsilon: float = Field(
        1.0,
        gt=0,
        exclude_if=partial(eq, 1.0),
        description="What of privacy.epsilon these moments cost; everything else has the rest.",
    )
    adaptation_directions: int = Field(
        32,
        ge=1,
        le=512,
        exclude_if=partial(eq, 32),
        description="Along how many directions of the synthetic texts the private rows are looked at.",
    )
    adaptation_weight: float = Field(
        1.0, gt=0, le=1e6, exclude_if=partial(eq, 1.0), description="How much that counts beside the labels."
    )

    rules = (
        rule("learning_rate", {"type": "number"}, {"kind": {"enum": ["finetune", "mlp"]}})
        | rule("batch", {"type": "integer"}, {"kind": {"enum": ["finetune", "mlp"]}})
        | rule("max_length", {"type": "integer"}, {"kind": {"const": "finetune"}})
        | rule("precision", {"const": "float32"}, {"kind": {"const": "finetune"}})
        | rule("adaptation", {"const": "coral"}, {"kind": {"enum": ["finetune", "mlp"]}})
        | rule("adaptation_from", {"const": "moments"}, {"adaptation": {"const": "coral"}, "kind": {"const": "mlp"}})
    )

    @property
    def pays(self) -> bool:
        """Whether the student adapts to private rows, of which moments are released."""
        return self.adaptation_from == "moments"

    @property
    def adapts_to_public(self) -> bool:
        """Whether it adapts to the public rows."""
        return self.adaptation == "coral" and not self.pays

    def need_density(self, released: bool) -> None:
        """Raise ValueError where the student would adapt to a density and none is released."""
        if self.adaptation == "density" and not released:
            raise ValueError(
                "student.adaptation is density, but none is released: it is for wasp with method.guidance kernel, "
                "subspace or clusters"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """All that is said of the student, for a StudentSpec."""
        named = ("kind", "model", "epochs", "adaptation", "adaptation_weight")
        return {name: getattr(self, name) for name in named} | self.recipe

    @property
    def recipe(self) -> dict[str, Any]:
        """What is said of steps and texts."""
        given: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "batch": self.batch,
            "max_length": self.max_length,
        }
        given |= {"precision": None if self.precision == "auto" else self.precision}
        return {name: value for name, value in given.items() if value is not None}

    @model_validator(mode="after")
    def _recipe_means_something(self) -> Self:
        known = {
            "finetune": {"learning_rate", "batch", "max_length", "precision"},
            "mlp": {"learning_rate", "batch"},
            "linear": set(),
        }
        for name in self.recipe:
            if name not in known[self.kind]:
                raise ValueError(f"{name} means nothing to a student of kind {self.kind}; leave it out")
        return self

    @model_validator(mode="after")
    def _adapts_a_network(self) -> Self:
        if self.adaptation == "coral" and self.kind == "linear":
            raise ValueError("adaptation: coral changes a network; set kind to mlp or finetune")
        if self.adaptation == "density" and self.kind == "finetune":
            raise ValueError("adaptation: density moves vectors; set kind to linear or mlp")
        if self.pays and (self.adaptation, self.kind) != ("coral", "mlp"):
            raise ValueError(
                "adaptation_from: moments are those of vectors, and for a student that adapts; set adaptation to coral "
                "and kind to mlp"
            )
        return self


class Evaluation(Strict):
    """What is measured against."""

    fid_reference: Literal["test", "private", "public", "none"] = Field(
        "test", description="Rows that FID compares with. 'private' is computed without noise and marked not private."
    )
    map: Literal["axes", "tsne"] = Field(
        "axes",
        exclude_if=partial(eq, "axes"),
        description="How texts are put on the report's map: two principal axes, or t-SNE (seconds more).",
    )


class Tracking(Strict):
    """Where experiments are recorded."""

    mlflow: str | None = Field(
        None, description="MLflow tracking URI; empty: MLFLOW_TRACKING_URI, else a database in the state folder."
    )
    experiment: str | None = Field(None, description="MLflow experiment; empty: the name of the task.")
    parent: str | None = Field(
        None, description="MLflow run that this one is part of; a comparison fills it in for its cells."
    )


class Limits(Strict):
    """What a run may cost."""

    max_dollars: float | None = Field(
        None,
        gt=0,
        description="Hard stop before the call that would pass it; what arrived is kept. Each openai or anthropic "
        "model then needs its price. Empty: no limit.",
    )


class Export(Strict):
    """What has to happen before a bundle of the run may leave (`wasp export`)."""

    approval: bool = Field(
        False, description="A second person has to approve each export of this run, on a page of the Prefect server."
    )
    approval_minutes: int = Field(
        60, ge=1, le=10_080, description="How long to wait for that; then nothing is exported."
    )


class Execution(Strict):
    """How the run is carried out; changes nothing in its result but `seed`."""

    task_runner: Literal["threads", "dask", "ray"] = Field(
        "threads", description="Where steps run: threads of one process, or processes of a Dask or Ray cluster."
    )
    max_workers: int = Field(4, ge=1, le=256, description="Steps that run at the same time.")
    cluster: str | None = Field(
        None,
        description="Address of a running cluster: tcp://HOST:8786 (Dask), HOST:6379 or ray://HOST:10001 (Ray). Empty: "
        "one is started on this machine for the run.",
    )
    seed: int = Field(0, ge=0, description="Rules everything except noise.")
    approval: bool = Field(
        False, description="Wait before the first private row is opened until a person has approved the plan."
    )
    approval_minutes: int = Field(
        60, ge=1, le=10_080, description="How long to wait for that; then the run ends and nothing is spent."
    )

    rules = rule("cluster", {"type": "string"}, {"task_runner": {"enum": ["dask", "ray"]}})

    @model_validator(mode="after")
    def _cluster_is_used(self) -> Self:
        if self.cluster is not None and self.task_runner == "threads":
            raise ValueError("cluster is for task_runner dask or ray; threads need none")
        return self


PACE = set(Execution.model_fields) - {"seed"}
"""Settings of `execution` that change no result, so that they make no other run."""
