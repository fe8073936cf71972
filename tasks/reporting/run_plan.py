"""The plan of a run as JSON values, which terminal, run page, manifest and approvals show.

Its keys are stored in manifests and printed by `wasp plan --json`, so they do not change.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from connectors.interfaces.json_values import Json


class PlannedSaving(TypedDict):
    """Input tokens and dollars that texts of one prompt save at models that bill the prompt once."""

    texts_per_prompt: int
    tokens_in: int
    dollars: float


class PlannedWriting(TypedDict):
    """Texts of a plan, with calls and cost of its language models.

    `lists`: models whose prompts are beginnings of lists. `measured`: models with stored completions, which set their
    tokens and speed. `minutes_of_writing`: None until every model was measured. `max_dollars`: None without a limit.
    `shared_prompts`: what `tokens_in` and `dollars_about` leave out, if texts share prompts.
    """

    task: str
    models: list[str]
    lists: list[str]
    iterations: int
    samples: int
    calls: int
    tokens_in: int
    tokens_out: int
    dollars_about: float
    measured: list[str]
    minutes_of_writing: float | None
    max_dollars: float | None
    shared_prompts: NotRequired[PlannedSaving]


class PlannedPrivacy(TypedDict):
    """Releases of a plan and what they cost.

    `releases`: number of charges in the privacy ledger, `events` what each of them charges. Epsilons are None without
    noise.
    """

    releases: int
    events: list[Json]
    sensitivity: float
    calibration: str
    sigma: float
    noise_multiplier: float
    epsilon_stated: float | None
    epsilon_exact: float | None
    delta: float
    adjacency: str
    protects: str
    dataset: str | None
    group: str | None
    public_rows: str
    private: bool
    opens_rows: bool
    parties: Json | None


class PlannedEmbedding(TypedDict):
    """Private records that a release embeds, and the minutes on this machine."""

    records: int
    minutes: float
    is_part: bool
    dataset: str | None


class RunPlan(PlannedWriting, PlannedPrivacy):
    """The plan of a run; `lines` are releases, noise and epsilon as terminal, run page and approval show them."""

    export_approval: bool
    approval: bool
    lines: list[str]


class ForecastPlan(RunPlan):
    """A plan with what the ledger says about it.

    `budget`: what the cap of the dataset leaves, None without a charge. `opening`: the forecast that decided on the
    private records, None without one.
    """

    warnings: list[str]
    budget: Json | None
    opening: Json | None


class CheckedPlan(ForecastPlan):
    """A plan with what would stop its run, as `wasp plan` prints it; `embedding` is None for few records."""

    problems: list[str]
    embedding: PlannedEmbedding | None
