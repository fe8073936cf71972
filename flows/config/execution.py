"""Typed parameters of every flow: student, limits, export, execution and others."""

from functools import partial
from operator import eq, is_
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from connectors.interfaces.addresses import ClusterHost, ModelName, TrackingHost
from connectors.interfaces.json_values import Json
from flows.config.form import SET, Rule, Rules, Strict
from flows.config.identity import NOT_IDENTITY

NETWORKS = ("finetune", "mlp")
"""Kinds of students with weights that epochs train."""


Transformer = Annotated[
    ModelName,
    Field(
        description="Hub id or folder of the transformer, for kind finetune; 'embedded': the demo model."
    ),
]


class Recipe(Strict):
    """Training settings of a classifier; `kind` of the class decides which have an effect."""

    # Earlier versions had no such fields: at their defaults they must not change the id of a run.
    learning_rate: float | None = Field(
        None,
        gt=0,
        lt=1,
        exclude_if=partial(is_, None),
        description="Learning rate. Empty: default of the kind. Not for linear.",
    )
    batch: int | None = Field(
        None,
        ge=1,
        le=4096,
        exclude_if=partial(is_, None),
        description="Batch size. Empty: 32 texts, 128 vectors. Not for linear.",
    )
    max_length: int | None = Field(
        None,
        ge=1,
        le=8192,
        exclude_if=partial(is_, None),
        description="Maximum tokens per text. Empty: 256. For finetune.",
    )

    rules: ClassVar[Rules] = {
        Rule(
            field, SET, "kind", kinds
        ): f"{field} has no effect on a student of kind {{0.kind}}. Remove it"
        for field, kinds in (
            ("learning_rate", NETWORKS),
            ("batch", NETWORKS),
            ("max_length", ("finetune",)),
        )
    }

    @property
    def recipe(self) -> Json:
        """Training settings that differ from their defaults."""
        values = {name: getattr(self, name) for name in Recipe.model_fields}
        return {name: value for name, value in values.items() if value is not None}


class StudentChoice(Recipe):
    """The downstream classifier (student, STM) trained on the synthetic texts."""

    kind: Literal["finetune", "linear", "mlp"] = Field(
        "finetune",
        description="Fine-tuned transformer, or a linear / 3-layer head on frozen embeddings.",
    )
    model: Transformer = "embedded"
    epochs: int = Field(
        5,
        ge=1,
        le=1000,
        description="Maximum epochs, with early stopping on a synthetic validation split.",
    )
    adaptation: Literal["none", "coral"] = Field(
        "none",
        exclude_if=partial(eq, "none"),
        description="Domain adaptation. coral: also align with the texts of `public` (Deep CORAL); for mlp.",
    )
    rules: ClassVar[Rules] = Recipe.rules | {
        Rule(
            "adaptation", ("coral",), "kind", ("mlp",)
        ): "adaptation: coral is for students of kind mlp. Set kind: mlp",
    }

    @property
    def settings(self) -> Json:
        """All settings of the student, for a StudentSpec."""
        values = self.model_dump(include={"kind", "model", "epochs"})
        # model_dump leaves out `adaptation` at its default, which a StudentSpec contains.
        values["adaptation"] = self.adaptation
        return values | self.recipe


class Evaluation(Strict):
    """Evaluation settings."""

    fid_reference: Literal["test", "public", "none"] = Field(
        "test", description="Reference data of the FID."
    )
    unnoised_figures: bool = Field(
        False,
        exclude_if=partial(eq, False),
        description="Also measure the figures of the papers that need the drawn records without noise: FID against "
        "them after each iteration, and the accuracy of teachers. NOT PRIVATE; for private.rows_are_public only.",
    )


class Tracking(Strict):
    """Experiment tracking in MLflow."""

    mlflow: TrackingHost | None = Field(
        None,
        description="MLflow tracking URI. Empty: MLFLOW_TRACKING_URI, else a database in the state folder.",
    )
    experiment: str | None = Field(None, description="MLflow experiment. Empty: the task name.")


class Limits(Strict):
    """Cost limits of a run."""

    max_dollars: float | None = Field(
        None,
        gt=0,
        description="Maximum cost in dollars. The run stops before a call that would exceed it and keeps completions. "
        "openai and anthropic models then need a price. Empty: no limit.",
    )


class Export(Strict):
    """Conditions for exporting a bundle of the run (`wasp export`)."""

    approval: bool = Field(
        False,
        description="Require a second person to approve each export on a page of the Prefect server; without an answer "
        "within an hour nothing is exported.",
    )
    public_rows: bool = Field(
        True,
        exclude_if=partial(eq, True),
        description="Include the texts of `public_corpus` in the bundle. The student learned from them in any case.",
    )


class Execution(Strict):
    """Execution settings; only `seed` changes the result."""

    first = ("seed",)

    task_runner: Annotated[Literal["threads", "dask"], NOT_IDENTITY] = Field(
        "threads", description="Run steps in threads of one process, or on a Dask cluster."
    )
    max_workers: Annotated[int, NOT_IDENTITY] = Field(
        4, ge=1, le=256, description="Maximum number of concurrent steps."
    )
    cluster: Annotated[ClusterHost | None, NOT_IDENTITY] = Field(
        None,
        description="Address of a running Dask cluster: tcp://HOST:8786. Empty: start a local one for the run.",
    )
    seed: int = Field(0, ge=0, description="Random seed. DP noise is never seeded.")
    approval: Annotated[bool, NOT_IDENTITY] = Field(
        False,
        description="Wait for a person to approve the plan before the run reads private data; without an answer within "
        "an hour the run ends and spends nothing.",
    )
    on_model_down: Annotated[Literal["stop", "continue"], NOT_IDENTITY] = Field(
        "stop",
        description="If a model does not answer before a release: stop, so that nothing is charged for fewer models, "
        "or continue with the others. The run can be resumed.",
    )

    rules: ClassVar[Rules] = {
        Rule("cluster", SET, "task_runner", ("dask",)): (
            "cluster needs task_runner dask. Remove it, or change task_runner"
        ),
    }


PACE = set(Execution.model_fields) - {"seed"}
"""Execution settings that do not affect the run id."""
