"""Every text of a form either says by its type that it names a place, or is listed here as plain text."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args

import pytest
import yaml
from prefect.utilities.callables import parameter_schema
from pydantic import BaseModel

from connectors.interfaces.addresses import AddressKind
from connectors.models.base.registry import connectors
from deployments.registry import PREFECT_FILE, Deployment
from flows.catalog import flows
from flows.config.base import RunConfig
from flows.config.task_files import TaskFile
from flows.engine.addresses import addresses_of, annotations_of, kind_in
from flows.engine.remote_writing import write_texts
from flows.engine.tools import RunName
from flows.publish.train_flow import BundleForm
from flows.runtime.stores import SharedStores
from flows.storage.retention import Retention
from tasks.writing.generate import WriteJob

PLAIN = {
    "names of columns of a permitted table": {
        *(
            "Rows.text",
            "Rows.label",
            "CorpusRows.label",
            "PrivateRows.person",
            "VocabularyChoice.term",
            "VocabularyChoice.rank",
        ),
        *("RowsRef.text", "RowsRef.label", "RowsRef.person"),
        *("PartitionChoice.text", "PartitionChoice.label", "PartitionChoice.person"),
    },
    "read with the path of their table, which is no database on a server": {
        "Rows.query",
        "RowsRef.query",
    },
    "classes and prefixes of codes": {"Rows.classes", "RowsRef.classes", "RowsRef.names"},
    "names in the privacy ledger, only compared": {
        *("PrivateRows.dataset", "PrivateRows.group", "RunName.dataset", "RunName.fingerprint"),
        *("SharedStores.book", "SharedStores.key"),
    },
    "names of models, flows, metrics and deployments, looked up in a list": {
        *(
            "Plm.name",
            "Plm.connector",
            "Plm.deployment",
            "AnyConfig.plms_used",
            "Row.flow",
            "RunName.flow",
        ),
        *(
            "CompareConfig.metrics",
            "WriteJob.plm",
            "WriteJob.only",
            "Address.plm",
            "HfOptions.device",
        ),
    },
    "changes of a configuration, which is checked with them": {
        *("AuditConfig.changes", "Row.set", "Column.set", "CompareConfig.set", "Row.ignores"),
    },
    "checked by the connector's own types": {"Plm.model", "Plm.options"},
    "device, length and revision of a model of the hub": {
        "EmbedderChoice.options",
        "HfOptions.revision",
    },
    "sent to the endpoint, in the body or behind its address": {
        *(
            "VendorOptions.extra",
            "VendorOptions.system",
            "VendorOptions.stop",
            "OpenAIOptions.azure",
            "Address.model",
        ),
    },
    "parts of prompts": {
        *(
            "TaskFile.name",
            "TaskFile.item",
            "TaskFile.language",
            "LabelForm.name",
            "LabelForm.description",
        ),
        *(
            "LabelForm.words",
            "AttributeForm.name",
            "AttributeForm.values",
            "InstructionsForm.zero_shot",
        ),
        *(
            "InstructionsForm.contrastive",
            "InstructionsForm.good_only",
            "InstructionsForm.example",
            "InstructionsForm.good_only_example",
            "InstructionsForm.list_heading",
        ),
        *(
            "TaskCard.name",
            "TaskCard.item",
            "TaskCard.language",
            "TaskCard.form",
            "TaskCard.length",
            "TaskCard.prompt_language",
            "TaskCard.attribute",
            "TaskCard.values",
        ),
        *(
            "TaskCard.zero_shot",
            "TaskCard.contrastive",
            "TaskCard.good_only",
            "TaskCard.example",
            "TaskCard.good_only_example",
            "TaskCard.list_heading",
            "PhraseExampleForm.phrases",
            "PhraseExampleForm.text",
            "PhraseExample.phrases",
            "PhraseExample.text",
        ),
        *("Label.name", "Label.description", "Label.words", "HfOptions.template", "HfOptions.stop"),
    },
    "titles": {
        *(
            "CompareConfig.title",
            "Row.name",
            "Row.differs",
            "Row.published",
            "Row.shows",
            "Column.name",
            "Tracking.experiment",
            "CorpusRows.source",
            "CorpusRows.licence",
        ),
        *("Price.date", "TokenPrice.date", "VendorOptions.edition"),
    },
    "ages": {"Retention.intermediate_older_than", "Retention.runs_older_than"},
    "a finished file of the state folder, read only with its SHA-256": {
        *("ArtifactRef.path", "ArtifactRef.sha256", "ArtifactRef.key", "ArtifactRef.step"),
        *("Reference.kind", "Reference.content"),
    },
}
"""Texts that name no place, by the reason."""
PARAMETERS = {"resumes": "compared with the id of the run", "changes": "changes of a configuration"}
"""Parameters of flows that are texts."""
FORMS = {"write-texts": {"run", "stores", "job"}, "train-on-bundle": {"folder"}}
"""Further parameters of flows, which are fields of forms."""


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in annotation if isinstance(annotation, tuple) else get_args(annotation):
        yield from _parts(part)


def _texts(group: type, seen: set[type]) -> Iterator[tuple[str, Any]]:
    """Yield CLASS.FIELD of each text of a class and of the classes in it, with its annotation."""
    if group in seen:
        return
    seen.add(group)
    for name, annotation in annotations_of(group).items():
        parts = list(_parts(annotation))
        for part in parts:
            if isinstance(part, type) and (issubclass(part, BaseModel) or is_dataclass(part)):
                yield from _texts(part, seen)
        if any(part in (str, Any, dict, list) for part in parts):
            owner = next(
                base for base in group.__mro__ if name in vars(base).get("__annotations__", {})
            )
            yield f"{owner.__name__}.{name}", annotation


def _forms() -> list[type]:
    options = [point.load() for point in connectors().values()]
    typed = [connector.options_type for connector in options if hasattr(connector, "options_type")]
    return [
        *(entry.config for entry in flows()),
        Retention,
        TaskFile,
        RunName,
        SharedStores,
        WriteJob,
        BundleForm,
        *typed,
    ]


def test_each_text_of_a_form_has_a_meaning() -> None:
    seen: set[type] = set()
    texts = dict(text for form in _forms() for text in _texts(form, seen))
    plain = {name for names in PLAIN.values() for name in names}
    assert {
        name for name, annotation in texts.items() if kind_in(annotation) is None
    } - plain == set()
    assert plain - texts.keys() == set(), "these fields are gone"
    assert not {name for name in plain if kind_in(texts[name]) is not None}, (
        "these fields have a type now"
    )


def test_a_new_text_needs_a_meaning() -> None:
    class Other(RunConfig):
        letters: tuple[str, ...] = ()

    assert "Other.letters" in dict(_texts(Other, set()))


@pytest.mark.parametrize("name", sorted(connectors()))
def test_each_connector_states_the_meaning_of_its_model_and_options(name: str) -> None:
    connector = connectors()[name].load()
    assert hasattr(connector, "model_type")
    assert hasattr(connector, "options_of") == (name != "ngram"), "ngram has no options"


def test_the_parameters_of_every_deployment_are_forms_or_plain() -> None:
    entries = yaml.safe_load(PREFECT_FILE.read_text(encoding="utf-8"))["deployments"]
    served = {deployment.flow.name: deployment.flow for deployment in map(Deployment, entries)}
    for name, flow in (served | {"write-texts": write_texts}).items():
        properties = parameter_schema(flow).model_dump()["properties"]
        others = set(properties) - {"config", "rules", "remove"} - PARAMETERS.keys()
        assert others == FORMS.get(name, set())


def test_a_text_of_another_package_has_an_unknown_meaning() -> None:
    class Foreign(BaseModel):
        letters: str = "http://x.example"

    Foreign.__module__ = "parrot"
    (address,) = addresses_of(Foreign())
    assert (address.field, address.kind) == ("letters", AddressKind.UNKNOWN)
