"""Fields and values that earlier versions had, with what to write instead."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from connectors.interfaces.json_values import Json
from connectors.models.base.options import REMOVED_OPTIONS, VENDOR_OPTIONS

SAME_FIELDS: Final = {"filler.": "plms.", "vocabulary.embedder.": "embedder."}
"""Groups whose fields are those of another group."""
SHIPPED_CONNECTORS: Final = (
    "anthropic",
    "fill_mask",
    "hf",
    "litellm",
    "ngram",
    "openai",
    "recorded",
)
"""Connectors of which options were removed; a connector of another package may have options of the same names."""


@cache
def removed_fields() -> dict[str, dict[str, str]]:
    """Return what to write instead of a removed field, by flow and path; fields of several flows are under `any`."""
    fields = yaml.safe_load(Path(__file__).with_name("removed.yaml").read_text(encoding="utf-8"))
    options = {
        name: REMOVED_OPTIONS[name] for name in ("bin_weights", "token_budget", *VENDOR_OPTIONS)
    }
    return {
        **fields,
        "any": fields["any"] | {f"plms.options.{name}": options[name] for name in options},
    }


@cache
def removed_defaults(flow: str) -> Json:
    """Return the values of settings that ids of runs contain and configurations do not, by path."""
    text = Path(__file__).with_name("removed_defaults.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    return {**values["any"], **values.get(flow, {})}


REMOVED_VALUES: Final = {
    ("embedder.connector", "word_vectors"): "Write sentence_transformers",
    ("execution.task_runner", "ray"): "Write dask, with a Dask cluster, or threads",
    ("plms.connector", "faulty"): "Write the connector that it wraps",
    (
        "plms.connector",
        "vllm",
    ): "Write openai, with the address of vLLM's server as endpoint and key: none",
    ("method.guidance", "clusters"): "Write kernel",
    ("method.guidance", "subspace"): "Write kernel",
    ("method.guidance", "votes_smoothed"): "Write votes",
    (
        "evaluation.fid_reference",
        "private",
    ): "Write test, with test rows that were held out (wasp init --test-share); for rows of a public benchmark set "
    "evaluation.unnoised_figures",
    ("student.adaptation", "auto"): "Remove it; texts carry soft labels of the release",
    ("student.adaptation", "density"): "Write text_labels: soft, which every student learns",
}
"""By the path of the field and its value."""


def explain_removed(flow: str | None, field: str, value: object) -> str | None:
    """Return the message for a removed field or value of a flow's configuration; None for any other."""
    fields = removed_fields()
    shown = field
    for group, other in SAME_FIELDS.items():
        if field.startswith(group):
            field = other + field.removeprefix(group)
    advice = fields.get(flow or "any", {}).get(field) or fields["any"].get(field)
    if advice is not None:
        return f"{shown}: removed in 0.3. {advice}"
    if isinstance(value, str) and (field, value) in REMOVED_VALUES:
        return f"{shown}: '{value}' was removed in 0.3. {REMOVED_VALUES[field, value]}"
    return None


def refuse_removed(flow: str | None, path: str, values: Mapping[str, object]) -> None:
    """Raise ValueError with the message of the first removed field or value below a path, where `Strict` sees none."""
    for name, value in values.items():
        if (message := explain_removed(flow, f"{path}{name}", value)) is not None:
            raise ValueError(message)


def without_removed(flow: str, values: Json) -> Json:
    """Return the configuration of a run of an earlier version without its removed fields and values."""
    result: Json = _without(flow, "", values)
    # The address is that of a removed runner, and a rule refuses `cluster` without dask.
    if "task_runner" in values.get("execution", {}) and "task_runner" not in result["execution"]:
        result["execution"].pop("cluster", None)
    # A rule now refuses the adaptation of a fine-tuned student.
    student = result.get("student") or {}
    if student.get("kind", "finetune") == "finetune":
        student.pop("adaptation", None)
    for plm in [*result.get("plms", []), result.get("filler") or {}]:
        if plm.get("connector") in SHIPPED_CONNECTORS and "options" in plm:
            plm["options"] = {
                name: value for name, value in plm["options"].items() if name not in REMOVED_OPTIONS
            }
    return result


def removed_settings(flow: str, values: Json, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield path and value of the removed fields and values in a configuration of an earlier version."""
    for name, value in values.items():
        field = f"{path}{name}"
        if explain_removed(flow, field, value) is not None:
            yield field, value
        elif isinstance(value, dict):
            yield from removed_settings(flow, value, f"{field}.")


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
