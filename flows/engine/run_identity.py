"""Names a run by a digest of everything that determines its result.

A run keeps its id when settings are added, removed or left out: later versions resume it, and repeat it without a
second charge. `LAYOUTS` lists the forms of the digest; CONTRIBUTING.md, "Compatibility", says how a setting changes
without a new one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from flows.config.base import AnyConfig
from flows.config.files import read_stored
from flows.config.identity import identity_of
from flows.config.method import DENSITIES
from flows.config.removed import removed_defaults, removed_settings
from flows.runtime.manifest import written_by
from tasks.writing.keyphrase_prompts import without_idle_examples
from tasks.writing.prompts import TaskCard

Settings = Json
REMOVED: Final = (
    "embedder.backend",
    "vocabulary.embedder.backend",
    "execution.approval_minutes",
    "parties.only",
)
"""Settings that no digest ever contained, and whose fields are gone."""
WITHOUT_EFFECT: Final = ("evaluation.map", "student.precision", "rows_at_once", "checkpoint_every")
"""Removed settings, by the end of their path, with which a run may be resumed: they change no release."""


@dataclass(frozen=True, slots=True)
class RunParts:
    """Everything that determines the result of a run.

    Attributes:
        settings: settings of the configuration that affect the result (`settings_of`).
        models: name and identity of each language model.
        fingerprint: keyed name of the private rows, empty if there are none.
        contents: digests of the other rows, and what the method adds.
    """

    flow: str
    settings: Settings
    card: TaskCard
    models: Sequence[Sequence[str]]
    embedder: str
    fingerprint: str
    contents: Sequence[str | None]

    def digest(self) -> str:
        """Return the digest that ends the id of a run."""
        values = [
            self.flow,
            self.card,
            self.settings,
            self.models,
            self.embedder,
            self.fingerprint,
            *self.contents,
        ]
        return digest(values)[:10]

    def to_json(self) -> dict[str, Any]:
        """Return the settings, and a digest of each other part, for the manifest."""
        return {
            "settings": self.settings,
            "task file": digest(self.card),
            "language models": digest(self.models),
            "embedder": digest(self.embedder),
            "private rows": digest(self.fingerprint),
            "test, public or example rows": digest(self.contents),
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """A form of the digest that some version wrote."""

    settings: Callable[[str, Settings], Settings]
    card: Callable[[TaskCard, bool], TaskCard]

    def arrange(self, parts: RunParts, is_listed: bool) -> RunParts:
        """Return the parts of a run in this form; `is_listed`: a model gets the beginnings of lists."""
        settings = self.settings(parts.flow, deepcopy(parts.settings))
        return replace(parts, settings=settings, card=self.arrange_card(parts, is_listed))

    def arrange_card(self, parts: RunParts, is_listed: bool) -> TaskCard:
        """Return the task of a run in this form."""
        return self.card(without_idle_examples(parts.card, parts.flow, is_listed), is_listed)


def settings_of(config: AnyConfig) -> Settings:
    """Return the settings of a configuration that affect the result of its run."""
    return config.identifying(_identity_of(config, config.model_dump(mode="json")))


def settings_by_name(config: AnyConfig) -> Settings:
    """Return the settings that affect the result, with the names of models, task and rows instead of their content."""
    values = identity_of(type(config), config.model_dump(mode="json"), by_name=True)
    # A manifest has the path of the task, a configuration its name or path.
    return config.identifying(values | {"task": Path(config.task).stem})


def stored_settings(config: AnyConfig, manifest: Mapping[str, Any]) -> Settings | None:
    """Return the settings that the id of a stored run contains; None if `config` has others.

    They contain settings that this version does not have.
    """
    stored = read_stored(type(config), manifest)
    if config.private is None:
        stored = stored.model_copy(update={"private": None})
    if settings_of(stored) != settings_of(config):
        return None
    written: Settings
    if "identity" in manifest:
        written = dict(manifest["identity"]["settings"])
    else:
        written = _identity_of(config, manifest["config"])
    # The run kept its private rows closed, as this version does: its id is that of a run without rows.
    if written.get("private") and config.private is None:
        written["private"] = None
    return config.identifying(written)


def find_name(
    parts: RunParts, name: str, is_listed: bool, is_stored: Callable[[str], bool]
) -> tuple[str, RunParts]:
    """Return the id of a run, and its parts in the form of its digest.

    This is the id of an equal run that is stored, also by an earlier version; else that of the current form. `name`
    begins the id.
    """
    forms = [layout.arrange(parts, is_listed) for layout in LAYOUTS]
    named = {f"{name}-{form.digest()}": form for form in reversed(forms)}
    # The current form first: two forms may both be stored, if an update came between two starts.
    current = f"{name}-{forms[0].digest()}"
    run_id = next((run_id for run_id in (current, *named) if is_stored(run_id)), current)
    return run_id, named[run_id]


def require_resumable(flow: str, manifest: Mapping[str, Any], settings: Settings) -> None:
    """Raise ConfigError for a stored run with a removed setting that would change its releases."""
    defaults = removed_defaults(flow)
    for path, value in removed_settings(flow, settings):
        if path.endswith(WITHOUT_EFFECT) or (path in defaults and value == defaults[path]):
            continue
        run_id = manifest["run_id"]
        raise ConfigError(
            f"{path}: Run {run_id} has the value {value!r}, and this version does not have the setting. Resume it with "
            f"the version that wrote it ({written_by(manifest)}), or return its budget: wasp abandon {run_id}"
        )


def changed_parts(
    parts: RunParts,
    manifest: Mapping[str, Any],
    is_same: bool,
    texts: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the parts of a run that differ from those of a stored one, for a message.

    `is_same`: the settings are equal. `texts`: entries of the texts of the stored run's first iteration, by path. They
    contain task and model, which manifests of earlier versions do not.
    """
    cards = [
        layout.arrange_card(parts, is_listed) for layout in LAYOUTS for is_listed in (True, False)
    ]
    changed = [] if is_same else ["settings"]
    if "identity" in manifest:
        stored = manifest["identity"]
        now = parts.to_json()
        if stored["task file"] in map(digest, cards):
            # Each layout of the digest has a form of the card, and the stored run has one of them.
            now["task file"] = stored["task file"]
        changed += [name for name in stored if name != "settings" and stored[name] != now[name]]
        return " and ".join(changed)
    # Manifests of earlier versions have the settings only; the first texts name task and model.
    if changed or not texts:
        return " and ".join(changed) or "task file, data or models"
    plain = [json.loads(canonical(card)) for card in cards]
    identities = {name: identity for name, identity, *_ in parts.models}
    for path, entry in texts.items():
        name = PurePosixPath(path).parts[-2].removeprefix("plm=")
        written = entry["parameters"]
        if written["card"] not in plain and "task file" not in changed:
            changed.append("task file")
        if written["model"] != identities.get(name):
            changed.append(f"language model {name}")
    return " and ".join(changed) or "data or embedder"


def _identity_of(config: AnyConfig, values: Mapping[str, Any]) -> Settings:
    """Return the values of a configuration, or those that a manifest has of it, which affect the result."""
    settings = identity_of(type(config), values)
    for path in REMOVED:
        *groups, name = path.split(".")
        group = _group(settings, groups)
        if group is not None:
            group.pop(name, None)
    # Digests of runs without parties had no such field.
    if settings.get("parties") is None:
        settings.pop("parties", None)
    return settings


def _group(settings: Settings, names: Sequence[str]) -> Settings | None:
    """Return the group of fields at a path; None if the settings lack it."""
    group: object = settings
    for name in names:
        if not isinstance(group, dict):
            return None
        group = group.get(name)
    return group if isinstance(group, dict) else None


def _with_defaults(flow: str, settings: Settings) -> Settings:
    """Add the settings that this version does not write, with the values that every run of this version has."""
    for path, value in removed_defaults(flow).items():
        *groups, name = path.split(".")
        group = _group(settings, groups)
        if group is not None:
            group.setdefault(name, value)
    method = settings["method"]
    privacy = settings["privacy"]
    # Earlier versions stored this default beside a private vocabulary only.
    if flow == "aug_pe" and method["keywords"] == "private_vocabulary":
        method.setdefault("words", 10)
    # Earlier versions stored what this one derives where the field is empty.
    if flow == "dp_kps" and privacy["setting"] == "paper" and method["threshold"] is None:
        method["threshold"] = 0.0
    if "joined_by" in privacy and privacy["joined_by"] is None:
        is_mean = privacy["protects"] == "person" and method.get("guidance") in DENSITIES
        privacy["joined_by"] = "mean" if is_mean else "max"
    return settings


def _with_written_adaptation(flow: str, settings: Settings) -> Settings:
    """Add the default of `student.adaptation` as an earlier version stored it where a configuration wrote it."""
    settings["student"].setdefault("adaptation", "none")
    return _with_defaults(flow, settings)


def _without_defaults(flow: str, settings: Settings) -> Settings:
    if flow == "kd_tutor":
        settings["filter"] = None
    if "parties" in settings:
        settings["parties"]["embeddings"] = "float32"
    return settings


def _without_idle_heading(card: TaskCard, is_listed: bool) -> TaskCard:
    """Leave out the heading of lists if no prompt has it."""
    return card if is_listed else replace(card, list_heading="")


def _without_language(card: TaskCard, is_listed: bool) -> TaskCard:
    """Leave out the language that prompts request: before, none requested one, and only English was checked."""
    return replace(_without_idle_heading(card, is_listed), prompt_language="")


def _without_examples(card: TaskCard, is_listed: bool) -> TaskCard:
    """Leave out the lines of lists of DP-KPS, too: before, all tasks had those of a support desk."""
    return replace(_without_language(card, is_listed), phrase_examples=())


LAYOUTS: Final = (
    # This version.
    Layout(_with_defaults, _without_idle_heading),
    # Later ones until prompts requested the language of the task.
    Layout(_with_defaults, _without_language),
    # 0.2.0 until commit 701dc80, and later ones until tasks had lines of lists of DP-KPS.
    Layout(_with_defaults, _without_examples),
    # 0.2.0 until commit 701dc80, where a configuration wrote the default of student.adaptation.
    Layout(_with_written_adaptation, _without_examples),
    # 0.2.0 at commit 035aa862.
    Layout(
        _without_defaults, lambda card, _: replace(card, phrase_examples=(), prompt_language="")
    ),
)
"""Forms of the digest, the current one first."""
