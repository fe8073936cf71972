"""State what speaks against running a new configuration, so that `wasp init` does not propose the run."""

from collections.abc import Sequence

from connectors.interfaces.json_values import Json
from connectors.interfaces.languages import described
from tasks.reporting.terminal import unusable_texts


def obstacles_of_models(config: str, language: str, models: Sequence[str]) -> list[str]:
    """Return the obstacle of models that write English in a task of another language."""
    if not models:
        return []
    verb = "writes" if len(models) == 1 else "write"
    return [
        f"{', '.join(models)} {verb} English, and the task is in {described(language)}. Set plms in {config} to a "
        "model that writes it"
    ]


def obstacles_of_preview(preview: Json) -> list[str]:
    """Return the obstacle of previewed texts, if many of them cannot be used."""
    finding = unusable_texts(preview)
    return [finding] if finding else []


def next_lines(name: str, obstacles: Sequence[str]) -> list[str]:
    """Return the last lines of `wasp init`: the run, or what to change before it."""
    if not obstacles:
        return [f"wasp run {name}"]
    reasons = [f"do not run yet: {obstacle}" for obstacle in obstacles]
    return [*reasons, f"wasp preview {name}"]
