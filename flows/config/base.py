"""Typed parameters of the flows: one YAML file, one form in the Prefect UI, the same names everywhere.

Unknown keys are refused with the nearest known name (`flows.config.files` words the errors).
"""

from __future__ import annotations

import math
from functools import partial
from operator import eq, is_
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.discriminator import NO_PERSONS, Filter
from flows.config.execution import Evaluation, Execution, Export, Limits, StudentChoice, Tracking
from flows.config.form import Schema, Strict, rule, tasks, without_null
from flows.config.method import AnyMethod, Asks
from flows.config.models import CAP_NEEDS_PRICES, EmbedderChoice, Plm, refuse_unpriced
from flows.config.parties import PartiesChoice
from flows.config.privacy import Calibration, Kept, Privacy
from flows.config.rows import PrivateRows, Rows
from tasks.accounting.sensitivity import Paper


class AnyConfig(Strict):
    """Everything that a run needs, whatever its method, and whether or not it opens private rows."""

    is_whole = True
    flow_name: ClassVar[str] = ""
    """Name of the flow in the catalogue that this configures."""

    task: str = Field(
        json_schema_extra=tasks, description="Name of a task that ships, or the path of a task file of your own."
    )
    data_root: str | None = Field(None, description="Folder that relative paths of rows and models start from.")
    private: PrivateRows | None = Field(None, exclude=True, description="The private rows, where there are any.")
    parties: PartiesChoice | None = Field(None, exclude=True, description="Who holds them, where several parties do.")
    test: Rows | None = Field(None, description="Real rows for accuracy and FID, never used in training.")
    public: Rows | None = Field(None, description="Public rows for metrics that may be shown.")
    plms: list[Plm] = Field(min_length=1, description="The language models (K of them).")
    plms_used: list[str] | None = Field(
        None, min_length=1, description="Names of the models that take part, for comparisons; empty: all."
    )
    embedder: EmbedderChoice = Field(EmbedderChoice(), description="The model that turns texts into vectors.")
    privacy: Kept = Field(Kept(), description="What happens to what the run has made.")
    method: AnyMethod = Field(AnyMethod(), description="Settings of the method.")
    student: StudentChoice = Field(StudentChoice(), description="The small task model (STM) trained on the result.")
    evaluation: Evaluation = Field(Evaluation(), description="What is measured against.")
    tracking: Tracking = Field(Tracking(), description="Where experiments are recorded.")
    limits: Limits = Field(Limits(), description="What a run may cost.")
    export: Export = Field(Export(), description="What has to happen before a bundle of the run may leave.")
    execution: Execution = Field(Execution(), description="How the run is carried out.")

    rules = (
        rule(
            "evaluation",
            {"properties": {"fid_reference": {"const": "public"}}, "required": ["fid_reference"]},
            {"public": {"type": "object"}},
        )
        | CAP_NEEDS_PRICES
    )

    @property
    def epsilon(self) -> float:
        """What is asked for: 0 where no private row is opened, infinite where nothing is promised."""
        return 0.0

    @property
    def few_shot_rows(self) -> Rows | None:
        """Rows whose texts prompts show, because their owner gave them away."""
        return None

    @property
    def students(self) -> list[tuple[str, str, str]]:
        """Field, kind and model of every classifier that the run trains."""
        return [("student", self.student.kind, self.student.model)]

    @property
    def result_size(self) -> int:
        """How many texts the result should hold."""
        return self.method.result_size

    @property
    def opens_rows(self) -> bool:
        """Whether private rows are opened, here or by parties."""
        return self.private is not None or self.parties is not None

    @property
    def models(self) -> list[Plm]:
        """Every language model of the run, those that write first."""
        return list(self.plms)

    @property
    def writers(self) -> tuple[str, ...]:
        """Names of the PLMs."""
        return tuple(plm.name for plm in self.plms)

    @property
    def asks(self) -> list[Asks]:
        """What the models are asked when nothing has to be asked twice; here each text once."""
        return [Asks(self.writers, self.method.samples)]

    @model_validator(mode="before")
    @classmethod
    def _only_those_used(cls, values: Any) -> Any:
        used, plms = (values.get("plms_used"), values.get("plms")) if isinstance(values, dict) else (None, None)
        if not isinstance(used, list) or not isinstance(plms, list):
            return values
        names = [plm.get("name") if isinstance(plm, dict) else getattr(plm, "name", None) for plm in plms]
        unknown = [name for name in used if name not in names]
        if unknown:
            raise ValueError(f"plms_used: there is no PLM {unknown[0]!r}; known here: {', '.join(map(str, names))}")
        return values | {"plms": [plm for plm, name in zip(plms, names, strict=True) if name in used]}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = [plm.name for plm in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"plms: the name {twice[0]!r} is used twice; give each PLM a name of its own")
        refuse_unpriced(self.limits.max_dollars, self.models)
        fills = [plm.name for plm in self.plms if plm.connector == "fill_mask"]
        if fills:
            raise ValueError(f"plms: {fills[0]!r} is a fill_mask model, which fills gaps and cannot write by itself")
        if self.student.adaptation == "coral" and not self.student.pays and self.public is None:
            raise ValueError(
                "student.adaptation is coral, but no public rows are given: name texts that may be learned from as "
                "they are under public, or let private rows be paid for: student.adaptation_from: moments, kind mlp"
            )
        if self.student.pays:
            self._can_pay_for_moments()
        self.student.need_density(self.method.releases_density)
        if self.evaluation.fid_reference == "public" and self.public is None:
            raise ValueError("evaluation.fid_reference is 'public' but no public rows are given")
        return self

    def _can_pay_for_moments(self) -> None:
        if self.private is None:
            raise ValueError("student.adaptation_from is moments, but no private rows are opened here; write public")
        if math.isinf(self.epsilon) or self.method.tuning is not None:
            raise ValueError(
                "student.adaptation_from: moments are paid out of the budget of votes or counts; this run trains on "
                "private rows or adds no noise. Write public"
            )
        given = self.student.adaptation_epsilon
        if given >= self.epsilon:
            raise ValueError(f"student.adaptation_epsilon ({given:g}) must be below privacy.epsilon ({self.epsilon:g})")


WITH_PERSON: Schema = {"required": ["person"], "properties": {"person": {"type": "string", "minLength": 1}}}


class RunConfig(AnyConfig):
    """Everything that a run on private rows needs, whatever its method."""

    private: PrivateRows | None = Field(
        None,
        json_schema_extra=without_null,
        description="The private rows: where they lie; never sent anywhere. Left out where parties have them.",
    )
    parties: PartiesChoice | None = Field(
        None, description="Several parties hold the private rows, each its own; in place of `private`."
    )
    privacy: Privacy = Field(Privacy(), description="What is promised about the private rows.")
    class_balance: Literal["balanced", "tutor"] = Field(
        "balanced",
        exclude_if=partial(eq, "balanced"),
        description="How many texts each class gets: equally many, or in the proportions of noisy counts of the "
        "private rows' labels, which take a part of epsilon (tutor).",
    )
    filter: Literal["none", "discriminator"] = Field(
        "none",
        exclude_if=partial(eq, "none"),
        description="discriminator: of all texts keep those that teachers on the private rows take for private, which "
        "takes a part of epsilon.",
    )
    discriminator: Filter | None = Field(
        None, exclude_if=partial(is_, None), description="Settings of that filter; empty: the usual ones."
    )

    # where parties hold the rows there is no `private`, and each party names its own column
    rules: ClassVar[dict[str, Schema]] = AnyConfig.rules | {
        "privacy": {
            "if": {
                "properties": {"privacy": {"properties": {"protects": {"const": "person"}}, "required": ["protects"]}},
                "required": ["privacy"],
            },
            "then": {"properties": {"private": WITH_PERSON}},
        }
    }

    @property
    def epsilon(self) -> float:
        """What the configuration asks for."""
        return self.privacy.epsilon

    @property
    def paper(self) -> Paper:
        """Whose noise `privacy.calibration: paper` is."""
        return "wasp"

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """The choices of `privacy.calibration` that mean something for the method."""
        return ("tight", "paper")

    @property
    def teaches_alone(self) -> bool:
        """Whether teachers and label counts are the method itself, which then have the whole budget."""
        return False

    @property
    def adds_epsilons(self) -> bool:
        """Whether the releases of the method have pure epsilons, which are simply added."""
        return False

    @property
    def result_size(self) -> int:
        """How many texts the result should hold: those that are written, or pass the filter."""
        if self.filter == "discriminator" and self.filtering is not None:
            return max(1, round(self.method.result_size * self.filtering.keep))
        return self.method.result_size

    @property
    def students(self) -> list[tuple[str, str, str]]:
        """Field, kind and model of every classifier that the run trains, that of the filter included."""
        filtering = self.filtering
        return super().students + ([("discriminator", filtering.kind, filtering.model)] if filtering else [])

    @model_validator(mode="after")
    def _somebody_has_rows(self) -> Self:
        if (self.private is None) == (self.parties is None):
            raise ValueError(
                "private: name the private rows (private.path), or the parties that hold them (parties.registry), and "
                "not both"
            )
        if self.parties is not None and self.evaluation.fid_reference == "private":
            raise ValueError("evaluation.fid_reference is 'private', but the rows are the parties'; write test or none")
        return self

    @property
    def filtering(self) -> Filter | None:
        """The discriminator that texts have to pass, if there is one."""
        return (self.discriminator or Filter()) if self.filter == "discriminator" else None

    @model_validator(mode="after")
    def _beside_fits(self) -> Self:
        if self.discriminator is not None and self.filter == "none":
            raise ValueError("discriminator: its settings are for filter: discriminator; leave them out, or filter")
        named = {"class_balance": self.class_balance != "balanced", "filter": self.filter != "none"}
        used = [name for name, on in named.items() if on]
        if used and self.parties is not None:
            raise ValueError(f"{used[0]}: several parties do not count labels or teach together; leave it out")
        if used and self.privacy.protects == "person":
            raise ValueError(f"{used[0]}: {NO_PERSONS}")
        texts = self.method.result_size
        if self.filtering is not None and self.filtering.queries >= texts:
            raise ValueError(
                f"discriminator.queries ({self.filtering.queries}) must be below the number of texts ({texts}), from "
                "whose rest the teachers learn"
            )
        asked = {"tutor_epsilon": self.class_balance == "tutor", "filter_epsilon": self.filter != "none"}
        for name, on in asked.items():
            given = getattr(self.privacy, name)
            if given is not None and not on:
                raise ValueError(f"privacy.{name} is {given:g}, but nothing is released with it; leave it out")
            if given is not None and given >= self.privacy.epsilon:
                raise ValueError(f"privacy.{name} ({given:g}) must be below privacy.epsilon")
        return self

    @model_validator(mode="after")
    def _person_fits(self) -> Self:
        if self.privacy.protects != "person" or self.private is None:
            return self
        if self.private.person is None:
            raise ValueError("privacy.protects is 'person': private.person must name the column of the persons")
        if self.private.takes_exactly:
            raise ValueError(
                "privacy.protects is 'person': private.rows takes a fixed number of rows, so that one person's absence "
                "lets other people in; set private.of to the rounded size of the source, or leave private.rows empty"
            )
        return self


class OwnRowsConfig(RunConfig):
    """Everything that a run needs whose method cannot be carried out by several parties."""

    private: PrivateRows = Field(description="The private rows: where they lie; they are never sent anywhere.")
    parties: None = Field(None, exclude=True)

    hidden: ClassVar[dict[str, str]] = {"parties": "this method is not carried out by several parties"}
