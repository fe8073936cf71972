"""Fields and values that earlier versions had, with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors.models.base.options import VENDOR_OPTIONS

REMOVED_FIELDS: Final = {
    "method.appraise": "Remove it",
    "method.bad_per_hub": "Remove it",
    "method.class_shares": "Remove it",
    "method.final_set": "Remove it; all texts are in the final data set",
    "method.keep": "Remove it; all texts are in the final data set",
    "discriminator.test_teachers": "Remove it; test rows measure the classifier that selects texts",
    "discriminator.answers": "Remove it; the teachers answer all queries",
    "discriminator.checks_share": "Remove it; the teachers answer all queries",
    "discriminator.sure": "Remove it; the teachers answer all queries",
    "discriminator.choose": "Remove it; the texts with the highest scores are chosen",
    "method.ambiguous": "Remove it; half of the candidates are ambiguous",
    "method.block": "Remove it; the sampling sets it",
    "method.examples_of": "Remove it; prompts of all classes show the same examples",
    "method.own_judge": "Remove it; every student judges all texts",
    "method.least_share": "Remove it; it is 0.05, and 0 with privacy.calibration: paper",
    "method.temperature": "Remove it; it is 1",
    "method.vote_scope": "Remove it; private records vote on all texts so far",
    "method.keep_parents": "Remove it; survivors stay beside their variations",
    "method.kernel": "Remove it; the kernel is cosine",
    "method.length_spread": "Remove it; prompts request no length",
    "method.look_ahead_self": "Remove it; the mean is over the variations alone",
    "method.checkpoint_every": "Remove it; checkpoints are written every 10 steps",
    "method.training.checkpoint_every": "Remove it; checkpoints are written every 10 steps",
    "method.counts_share": "Remove it; the votes weigh the models",
    "method.exam": "Remove it; test rows measure usefulness",
    "evaluation.map": "Remove it; the map shows two principal axes",
    "embedder.precision": "Remove it; vectors are computed in float32",
    "method.weights_from": "Remove it; the votes weigh the models",
    "api": "Remove it; parties meet in the exchange",
    "certificate": "Remove it; parties meet in the exchange",
    "moments": "Remove it",
    "wasp_config": "Write config, with the configuration of the run to audit",
    "mechanisms": "Name the configuration of a run in config; each of its releases is attacked",
    "calibrations": "Set privacy.calibration in the configuration of the run",
    "keyphrases": "Name the configuration of a dp_kps run in config",
    "teachers": "Name the configuration of a kd_tutor run in config",
    "training": "Name the configuration of a dp_sgd_gen run in config",
    "federation": "Name the configuration of a run with parties in config",
    "plms.batch_api": "Remove it; calls are made one by one, and stored as they arrive",
    "plms.batch_seconds": "Remove it",
    "plms.price.batch": "Remove it",
    **{f"plms.options.{name}": advice for name, advice in VENDOR_OPTIONS.items()},
    "parties.only": "Remove it; write a registry of these parties",
    "poll_seconds": "Remove it; parties meet in the exchange",
    "student.adaptation_directions": "Remove it",
    "student.adaptation_epsilon": "Remove it",
    "student.adaptation_weight": "Remove it; the weight is 1",
    "student.precision": "Remove it; processors that support it compute in bfloat16",
    "student.adaptation_from": "Remove it; coral adapts to the texts of `public`",
}
"""By the name of the field."""

REMOVED_VALUES: Final = {
    ("embedder.connector", "word_vectors"): "Write sentence_transformers",
    ("execution.task_runner", "ray"): "Write dask, with a Dask cluster, or threads",
    ("parties.embeddings", "int8"): "Write float16",
    ("plms.connector", "faulty"): "Write the connector that it wraps",
    ("plms.connector", "vllm"): "Write openai, with the address of vLLM's server as endpoint and key: none",
    ("method.guidance", "clusters"): "Write kernel",
    ("method.guidance", "subspace"): "Write kernel",
    ("method.guidance", "votes_smoothed"): "Write votes",
}
"""By the name of the field and its value."""


def explain_removed(field: str, value: Any) -> str | None:
    """Return the message for a removed field or value; None for any other."""
    if field in REMOVED_FIELDS:
        return f"{field}: removed in 0.3. {REMOVED_FIELDS[field]}"
    if isinstance(value, str) and (field, value) in REMOVED_VALUES:
        return f"{field}: '{value}' was removed in 0.3. {REMOVED_VALUES[field, value]}"
    return None


def without_removed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run of an earlier version without its removed fields and values."""
    result = dict(values)
    for group, fields in values.items():
        if isinstance(fields, dict):
            result[group] = _without(group, fields)
        elif group == "plms" and isinstance(fields, list):
            result[group] = [_without(group, plm) for plm in fields]
    if "task_runner" in values.get("execution", {}) and "task_runner" not in result["execution"]:
        result["execution"].pop("cluster", None)
    return result


def _without(group: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    valid = {name: value for name, value in fields.items() if explain_removed(f"{group}.{name}", value) is None}
    return {
        name: _without(f"{group}.{name}", value) if isinstance(value, dict) else value for name, value in valid.items()
    }
