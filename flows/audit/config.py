"""Typed parameters of the audit: the attacked guarantee and the number of trials."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from flows.config.form import Strict
from flows.config.privacy import Calibration, Promise
from flows.config.rows import Rows


class KeyphraseParts(Strict):
    """Attack on DP-KPS. Its guarantee holds for any number of terms and frequencies; few give stronger bounds."""

    settings: list[Literal["gaussian", "pure", "paper"]] = Field(
        ["gaussian", "pure", "paper"],
        min_length=1,
        max_length=3,
        json_schema_extra={"uniqueItems": True},
        description="gaussian; pure (Laplace noise, delta 0); paper: as printed, no guarantee for whole documents.",
    )
    terms: int = Field(1, ge=1, le=50, description="Maximum vocabulary terms of a document (S).")
    keyphrases: int = Field(10, ge=1, le=100, description="Maximum keyphrases of a document (M).")
    frequencies: int = Field(1, ge=1, le=500, description="Random frequencies of the density (D).")
    vocabulary_epsilon: float | None = Field(
        None,
        gt=0,
        description="Epsilon of the vocabulary, as in the audited run; empty: the same budget for both.",
    )

    @model_validator(mode="after")
    def _settings_are_unique(self) -> Self:
        if len(set(self.settings)) < len(self.settings):
            raise ValueError("settings: each of gaussian, pure and paper at most once")
        return self


class TeacherParts(Strict):
    """Attack on teachers and label counts. Their guarantee holds for any number of queries."""

    queries: int = Field(12, ge=1, le=1000, description="Queries whose answers are released together.")
    tutor_epsilon: float = Field(
        0.4, gt=0, description="Epsilon of the label counts, as in the audited run; the teachers get the rest."
    )
    checks_share: float = Field(
        0.3, gt=0, lt=1, description="Part of the teachers' budget for checking their confidence."
    )


class FederationParts(Strict):
    """Attack on the sums of several parties; the attacker knows the shares of the colluding ones."""

    parties: int = Field(
        3, ge=2, le=20, description="Parties whose sum is released; the noise is scaled for this number."
    )
    colluding: int = Field(1, ge=0, le=18, description="Parties that share their messages with the attacker.")

    @model_validator(mode="after")
    def _honest_parties_remain(self) -> Self:
        if self.colluding >= self.parties:
            raise ValueError(f"colluding ({self.colluding}) must be less than parties ({self.parties})")
        return self


class TrainingParts(Strict):
    """Attack on one training by DP-SGD with twice as many canaries as trials, each inserted with probability 1/2."""

    steps: int = Field(100, ge=1, le=100_000, description="Steps of the training.")
    batch_rows: int = Field(256, ge=1, description="Rows in a step on average.")
    declared_rows: int = Field(1024, ge=1, description="Declared number of rows.")


class AuditedMethod(Strict):
    """A method whose releases bring their own attacks, and its configuration file."""

    flow: str = Field(description="Name of the method, as wasp --help lists it.")
    config: str = Field(description="Configuration file of the method; its privacy is audited.")


class PipelineAttack(Strict):
    """Attack on the outputs of one complete WASP run with synthetic canary records among its rows."""

    rows: Rows | None = Field(
        None,
        description="Stand-ins for the private rows: synthetic or public, never your private rows. Empty: the rows "
        "shipped with the task support_desk.",
    )
    canaries: int = Field(
        600,
        ge=20,
        le=5000,
        description="Canary records, each inserted with probability 1/2. More canaries give stronger bounds.",
    )
    guesses: int = Field(
        250, ge=10, le=5000, description="Number of most extreme canaries that each attack guesses; fixed in advance."
    )
    confidence: float = Field(
        0.95, ge=0.9, lt=1, description="Joint confidence of the lower bounds of all three attacks."
    )

    @model_validator(mode="after")
    def _enough_canaries(self) -> Self:
        if self.guesses > self.canaries:
            raise ValueError(f"guesses ({self.guesses}) cannot be more than canaries ({self.canaries})")
        return self


class AuditConfig(Strict):
    """Attacks of an audit on the releases of a run with these numbers. Opens no private row and spends no budget."""

    is_whole = True

    wasp_config: str | None = Field(
        None,
        description="Configuration file of the flow wasp: its privacy, iterations and votes are audited instead of "
        "those below.",
    )
    privacy: Promise = Field(Promise(), description="Privacy guarantee for the private rows.")
    iterations: int = Field(
        5, ge=2, le=100, description="Generation iterations (T). WASP has T - 1 releases, private evolution T."
    )
    votes: int = Field(8, ge=1, le=32, description="Nearest and furthest texts that each private row votes for (Q).")
    mechanisms: list[Literal["wasp", "large_votes", "pe", "dp_kps", "kd", "federated", "guidance", "dp_sgd"]] = Field(
        ["wasp"],
        max_length=8,
        json_schema_extra={"uniqueItems": True},
        description="wasp: near and far votes; large_votes: one vote of 200,000 counts, whose noise has its own "
        "sampler; pe: private evolution's histogram of nearest votes; dp_kps: vocabulary and density of keyphrases; "
        "kd: label counts and teachers' answers; federated: sums of several parties' votes; guidance: the density of "
        "method.guidance: kernel. If wasp_config uses it, it is attacked instead of wasp; dp_sgd: a "
        "training on private rows.",
    )
    calibrations: list[Calibration] = Field(
        ["tight", "paper"],
        min_length=1,
        max_length=2,
        json_schema_extra={"uniqueItems": True},
        description="Audited noise of wasp: tight, the least noise that keeps epsilon; paper, the noise of the paper's "
        "formula.",
    )
    keyphrases: KeyphraseParts = Field(KeyphraseParts(), description="Attack on dp_kps.")
    teachers: TeacherParts = Field(TeacherParts(), description="Attack on kd releases.")
    training: TrainingParts = Field(TrainingParts(), description="Attack on dp_sgd.")
    federation: FederationParts = Field(FederationParts(), description="Attack on federated sums.")
    trials: int = Field(
        1000,
        ge=50,
        le=20_000,
        description="Number of runs with and of runs without the target record. More trials give stronger bounds.",
    )
    confidence: float = Field(0.999, ge=0.9, lt=1, description="Confidence level of each lower bound on epsilon.")
    method: AuditedMethod | None = Field(
        None, description="A method of another package: the attacks that its releases bring run as well. Empty: none."
    )
    pipeline: PipelineAttack | None = Field(
        None, description="Also attack a complete run of WASP (takes minutes); empty: no."
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if len(set(self.calibrations)) < len(self.calibrations):
            raise ValueError("calibrations: each of tight and paper at most once")
        if not self.mechanisms and self.method is None:
            raise ValueError("mechanisms: name at least one mechanism, or a method that brings attacks (method)")
        if len(set(self.mechanisms)) < len(self.mechanisms):
            raise ValueError("mechanisms: each of wasp, pe, dp_kps, kd, federated, guidance and dp_sgd at most once")
        if math.isinf(self.privacy.epsilon):
            raise ValueError("privacy.epsilon is infinite: there is no guarantee and nothing to audit")
        defaults = [(name, type(self).model_fields[name].default) for name in ("privacy", "iterations", "votes")]
        changed = [name for name, default in defaults if getattr(self, name) != default]
        if self.wasp_config is not None and changed:
            raise ValueError(f"wasp_config provides the audited numbers; remove {', '.join(changed)}")
        return self
