"""The student as served by MLflow: column `text` in, one label per row out.

MLflow copies this file into the logged model and runs it there; nothing else imports it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel


class ServedStudent(PythonModel):  # type: ignore[misc]
    """Loads the student, and its embedder if it works on vectors, on first use."""

    _skip_type_hint_validation = True  # the signature logged with the model is the schema, not annotations

    def load_context(self, context: Any) -> None:
        """Store the student's folder and its loader."""
        self.folder = Path(context.artifacts["student"])
        self.config: dict[str, Any] = dict(context.model_config)
        self.student: Any = None
        self.embedder: Any = None

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG002
        """Return the label of each text."""
        if self.student is None:
            self._open()
        texts = [str(text) for text in model_input["text"]]
        vectors = self.embedder.embed(texts) if self.embedder is not None else None
        return [str(label) for label in self.student(texts, vectors).labels]

    def _open(self) -> None:
        module, _, function = self.config["loader"].partition(":")
        self.student = getattr(importlib.import_module(module), function)(self.folder)
        if self.config["embedder"]:
            from connectors.embedders.registry import open_embedder

            self.embedder = open_embedder(**self.config["embedder"])


set_model(ServedStudent())
