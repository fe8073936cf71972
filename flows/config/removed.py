"""Fields and values that earlier versions had, with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors.models.base.options import REMOVED_OPTIONS, VENDOR_OPTIONS

TRAINING_FIELDS: Final = {
    "checkpoint_every": "Remove it; checkpoints are written every 10 steps",
    "clip": "Remove it; the gradient of a row is clipped to the L2 norm 1",
    "rows_at_once": "Remove it; 32 rows are in memory together",
}
"""Fields of a training by DP-SGD."""

VOCABULARY_FIELDS: Final = {
    "vocabulary.most": "Remove it; all terms count, up to 500,000",
    "vocabulary.stop_words": "Remove it; common English words are left out",
}

REMOVED_FIELDS: Final[dict[str | None, dict[str, str]]] = {
    None: {
        "discriminator.test_teachers": "Remove it; test rows measure the classifier that selects texts",
        "discriminator.negatives": "Remove it; a teacher learns from at most 500 generated texts",
        "discriminator.answers": "Remove it; the teachers answer all queries",
        "discriminator.checks_share": "Remove it; the teachers answer all queries",
        "discriminator.sure": "Remove it; the teachers answer all queries",
        "discriminator.choose": "Remove it; the texts with the highest scores are chosen",
        "embedder.precision": "Remove it; vectors are computed in float32",
        "evaluation.map": "Remove it; the map shows two principal axes",
        "execution.approval_minutes": "Remove it; a run waits an hour",
        "export.approval_minutes": "Remove it; an export waits an hour",
        "parties.only": "Remove it; write a registry of these parties",
        "plms.batch_api": "Remove it; calls are made one by one, and stored as they arrive",
        "plms.batch_seconds": "Remove it",
        "plms.options.token_budget": REMOVED_OPTIONS["token_budget"],
        "plms.price.batch": "Remove it",
        "plms.price.cache_write": "Remove it; it is 1.25 times input",
        "plms.price.reasoning": "Remove it; reasoning costs as output",
        **{f"plms.options.{name}": advice for name, advice in VENDOR_OPTIONS.items()},
        "student.adaptation_directions": "Remove it",
        "student.adaptation_epsilon": "Remove it",
        "student.adaptation_weight": "Remove it; the weight is 1",
        "student.precision": "Remove it; processors that support it compute in bfloat16",
        "student.adaptation_from": "Remove it; coral adapts to the texts of `public`",
        "tracking.parent": "Remove it; a comparison is the parent of its runs",
    },
    "wasp": {
        "method.appraise": "Remove it",
        "method.bad_per_hub": "Remove it",
        "method.class_shares": "Remove it",
        "method.final_set": "Remove it; all texts are in the final data set",
        "method.keep": "Remove it; all texts are in the final data set",
        "method.least_share": "Remove it; it is 0.05, and 0 with privacy.calibration: paper",
        "method.temperature": "Remove it; it is 1",
        "method.vote_scope": "Remove it; private records vote on all texts so far",
        "method.kernel": "Remove it; the kernel is cosine",
        "method.counts_share": "Remove it; the votes weigh the models",
        "method.exam": "Remove it; test rows measure usefulness",
        "method.weights_from": "Remove it; the votes weigh the models",
    },
    "aug_pe": {
        **VOCABULARY_FIELDS,
        "method.keep_parents": "Remove it; survivors stay beside their variations",
        "method.length_spread": "Remove it; prompts request no length",
        "method.look_ahead_self": "Remove it",
        "method.look_ahead": "Remove it; the vector of a text represents it in votes",
        "method.selection": "Remove it; texts with most votes survive",
        "method.threshold": "Remove it; no count is reduced",
        "method.winners": "Remove it; each class has 8",
        "method.terms": "Remove it; at most 10 terms of a row count",
        "method.words": "Remove it; each prompt has ten terms",
        "method.vocabulary_terms": "Remove it; the private vocabulary has at most 1000 terms",
    },
    "pre_text": {
        "method.mask": "Remove it; 0.3 of the words are masked",
        "method.mask_rounds": "Remove it; there are 2 rounds",
        "method.threshold": "Remove it; the threshold is one standard deviation of the noise",
    },
    "fusegen": {
        "method.ambiguous": "Remove it; half of the candidates are ambiguous",
        "method.examples_of": "Remove it; prompts of all classes show the same examples",
        "method.pool": "Remove it; there are 5 candidates per example",
        "method.own_judge": "Remove it; every student judges all texts",
    },
    "dp_kps": {
        **VOCABULARY_FIELDS,
        "method.block": "Remove it; the sampling sets it",
        "method.disclosure": "Remove it; prompts name no class",
        "method.ensemble": "Remove it; it is logarithmic",
        "method.examples_per_class": "Remove it; prompts show 3 of each class",
        "method.frequencies": "Remove it; a density has 500",
        "method.keyphrases": "Remove it; the first 10 phrases of a record count",
        "method.terms": "Remove it; at most 10 terms of a record count",
    },
    "dp_sgd_gen": {
        "method.alpha": "Remove it; it is 8",
        **{f"method.{name}": advice for name, advice in TRAINING_FIELDS.items()},
    },
    "dp_sgd_student": {f"method.training.{name}": advice for name, advice in TRAINING_FIELDS.items()},
    "kd_tutor": {f"method.training.{name}": advice for name, advice in TRAINING_FIELDS.items()},
    "audit": {
        "confidence": "Remove it; each bound has confidence 0.999",
        "pipeline.guesses": "Remove it; 5 of 12 canaries are guessed",
        "pipeline.confidence": "Remove it; the bounds on a whole run have confidence 0.95 together",
        "moments": "Remove it",
        "wasp_config": "Write config, with the configuration of the run to audit",
        "mechanisms": "Name the configuration of a run in config; each of its releases is attacked",
        "calibrations": "Set privacy.calibration in the configuration of the run",
        "keyphrases": "Name the configuration of a dp_kps run in config",
        "teachers": "Name the configuration of a kd_tutor run in config",
        "training": "Name the configuration of a dp_sgd_gen run in config",
        "federation": "Name the configuration of a run with parties in config",
    },
    "compare": {
        "seeded": "Remove it; write '{seed}' as the value of its fields in set",
        "against": "Remove it, and write the row to compare with first",
        "confidence": "Remove it; intervals have confidence 0.95",
    },
    "party": {
        "api": "Remove it; parties meet in the exchange",
        "certificate": "Remove it; parties meet in the exchange",
        "poll_seconds": "Remove it; parties meet in the exchange",
    },
}
"""By flow, and by the path of the field without positions in lists; those of several flows under None."""

REMOVED_VALUES: Final = {
    ("embedder.connector", "word_vectors"): "Write sentence_transformers",
    ("execution.task_runner", "ray"): "Write dask, with a Dask cluster, or threads",
    ("parties.embeddings", "int8"): "Write float16",
    ("plms.connector", "faulty"): "Write the connector that it wraps",
    ("plms.connector", "vllm"): "Write openai, with the address of vLLM's server as endpoint and key: none",
    ("method.guidance", "clusters"): "Write kernel",
    ("method.guidance", "subspace"): "Write kernel",
    ("method.guidance", "votes_smoothed"): "Write votes",
    ("student.adaptation", "auto"): "Remove it; texts carry soft labels of the release",
    ("student.adaptation", "density"): "Write text_labels: soft, which every student learns",
}
"""By the path of the field and its value."""


def explain_removed(flow: str | None, field: str, value: Any) -> str | None:
    """Return the message for a removed field or value of a flow's configuration; None for any other."""
    advice = REMOVED_FIELDS.get(flow, {}).get(field) or REMOVED_FIELDS[None].get(field)
    if advice is not None:
        return f"{field}: removed in 0.3. {advice}"
    if isinstance(value, str) and (field, value) in REMOVED_VALUES:
        return f"{field}: '{value}' was removed in 0.3. {REMOVED_VALUES[field, value]}"
    return None


def without_removed(flow: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run of an earlier version without its removed fields and values."""
    result: dict[str, Any] = _without(flow, "", values)
    if "task_runner" in values.get("execution", {}) and "task_runner" not in result["execution"]:
        result["execution"].pop("cluster", None)
    return result


def _without(flow: str, path: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_without(flow, path, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    paths = {name: f"{path}.{name}" if path else str(name) for name in value}
    return {
        name: _without(flow, paths[name], inner)
        for name, inner in value.items()
        if explain_removed(flow, paths[name], inner) is None
    }
