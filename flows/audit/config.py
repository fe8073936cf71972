"""Typed parameters of the audit: the promise that is attacked, and how often."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from flows.config.form import Strict
from flows.config.privacy import Calibration, Promise
from flows.config.rows import Rows


class KeyphraseParts(Strict):
    """How DP-KPS is attacked. Its promise holds for any number of terms and frequencies; with few, more is proven."""

    settings: list[Literal["gaussian", "pure", "paper"]] = Field(
        ["gaussian", "pure", "paper"],
        min_length=1,
        max_length=3,
        json_schema_extra={"uniqueItems": True},
        description="gaussian; pure (Laplace noise, delta 0); paper: as printed, no guarantee for whole documents.",
    )
    terms: int = Field(1, ge=1, le=50, description="Most vocabulary terms of a document (S).")
    keyphrases: int = Field(10, ge=1, le=100, description="Most keyphrases of a document (M).")
    frequencies: int = Field(1, ge=1, le=500, description="Random frequencies of the density (D).")
    vocabulary_epsilon: float | None = Field(
        None,
        gt=0,
        description="Epsilon of the vocabulary, as in the run that is meant; empty: the same budget for both.",
    )

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.settings)) < len(self.settings):
            raise ValueError("settings: each of gaussian, pure and paper at most once")
        return self


class TeacherParts(Strict):
    """How teachers and label counts are attacked. Their promise holds for any number of queries."""

    queries: int = Field(12, ge=1, le=1000, description="Queries whose answers are released together.")
    tutor_epsilon: float = Field(
        0.4, gt=0, description="Epsilon of the label counts, as in the run that is meant; the teachers have the rest."
    )
    checks_share: float = Field(
        0.3, gt=0, lt=1, description="Part of the teachers' budget for the look how sure they are."
    )


class FederationParts(Strict):
    """Whose sums are attacked where several parties vote: who reads them has the shares of those that collude."""

    parties: int = Field(3, ge=2, le=20, description="Parties whose sum is released; as many as noise is made for.")
    colluding: int = Field(1, ge=0, le=18, description="Parties that tell the attacker what they sent.")

    @model_validator(mode="after")
    def _somebody_is_left(self) -> Self:
        if self.colluding >= self.parties:
            raise ValueError(f"colluding ({self.colluding}) must be less than parties ({self.parties})")
        return self


class AuditedMethod(Strict):
    """A method whose releases bring their own attacks, and its configuration file."""

    flow: str = Field(description="Name of the method, as wasp --help lists it.")
    config: str = Field(description="Configuration file of the method; its privacy is audited.")


class PipelineAttack(Strict):
    """One whole run of WASP with made-up records planted among its rows, and attacks on what it gives out."""

    rows: Rows | None = Field(
        None,
        description="Rows that play the private ones: made up, or public. Never your private rows. Empty: those that "
        "ship with the task support_desk.",
    )
    canaries: int = Field(
        600, ge=20, le=5000, description="Made-up records, each planted if a coin says so. More of them prove more."
    )
    guesses: int = Field(
        250, ge=10, le=5000, description="Canaries that each attack decides about, the most extreme; fixed beforehand."
    )
    confidence: float = Field(0.95, ge=0.9, lt=1, description="Of the lower bounds of all three attacks together.")

    @model_validator(mode="after")
    def _enough_canaries(self) -> Self:
        if self.guesses > self.canaries:
            raise ValueError(f"guesses ({self.guesses}) cannot be more than canaries ({self.canaries})")
        return self


class AuditConfig(Strict):
    """What one audit attacks: the releases of a run with these numbers. No private row is opened, nothing is spent."""

    is_whole = True

    wasp_config: str | None = Field(
        None,
        description="Configuration file of the flow wasp: its privacy, iterations and votes are audited, in place of "
        "those below.",
    )
    privacy: Promise = Field(Promise(), description="What is promised about the private rows.")
    iterations: int = Field(
        5, ge=2, le=100, description="Rounds of writing (T). WASP has T - 1 releases, private evolution T."
    )
    votes: int = Field(8, ge=1, le=32, description="Nearest and furthest texts that each private row votes for (Q).")
    mechanisms: list[Literal["wasp", "pe", "dp_kps", "kd", "federated", "guidance"]] = Field(
        ["wasp"],
        max_length=5,
        json_schema_extra={"uniqueItems": True},
        description="wasp: near and far votes; pe: private evolution's histogram of nearest votes; dp_kps: vocabulary "
        "and density of keyphrases; kd: label counts and teachers' answers; federated: sums of several parties' votes; "
        "guidance: the density of method.guidance: kernel. A file of wasp_config that guides so is attacked there in "
        "place of wasp.",
    )
    calibrations: list[Calibration] = Field(
        ["tight", "paper"],
        min_length=1,
        max_length=2,
        json_schema_extra={"uniqueItems": True},
        description="Which noise of wasp is audited: tight, the least that keeps epsilon; paper, that of the paper's "
        "formula.",
    )
    keyphrases: KeyphraseParts = Field(KeyphraseParts(), description="How dp_kps is attacked.")
    teachers: TeacherParts = Field(TeacherParts(), description="How kd is attacked.")
    federation: FederationParts = Field(FederationParts(), description="How federated is attacked.")
    trials: int = Field(
        1000,
        ge=50,
        le=20_000,
        description="Runs with and as many without the record that is looked for. More trials prove more.",
    )
    confidence: float = Field(
        0.999, ge=0.9, lt=1, description="Of each lower bound: how sure it is that epsilon is at least that."
    )
    method: AuditedMethod | None = Field(
        None, description="A method of another package: the attacks that its releases bring run as well. Empty: none."
    )
    pipeline: PipelineAttack | None = Field(
        None, description="Attack a whole run of WASP as well, from its rows to its texts; minutes. Empty: not."
    )

    @model_validator(mode="after")
    def _one_promise(self) -> Self:
        if len(set(self.calibrations)) < len(self.calibrations):
            raise ValueError("calibrations: each of tight and paper at most once")
        if not self.mechanisms and self.method is None:
            raise ValueError("mechanisms: name at least one mechanism, or a method that brings attacks (method)")
        if len(set(self.mechanisms)) < len(self.mechanisms):
            raise ValueError("mechanisms: each of wasp, pe, dp_kps, kd, federated and guidance at most once")
        if math.isinf(self.privacy.epsilon):
            raise ValueError("privacy.epsilon is infinite: that promises nothing, so there is nothing to audit")
        usual = [(name, type(self).model_fields[name].default) for name in ("privacy", "iterations", "votes")]
        changed = [name for name, default in usual if getattr(self, name) != default]
        if self.wasp_config is not None and changed:
            raise ValueError(f"wasp_config names the file whose numbers are audited; leave out {', '.join(changed)}")
        return self
