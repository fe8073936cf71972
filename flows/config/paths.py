"""Resolves the paths of rows and models in a configuration, and names datasets."""

from pathlib import Path
from typing import Any

from connectors.embedders.registry import open_embedder
from connectors.interfaces.embedding import Embedder
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.rows import RowsRef, TermsRef
from flows.config.base import AnyConfig
from flows.config.models import EmbedderChoice, Plm
from flows.config.rows import PrivateRows, Rows, VocabularyChoice

FILES = {"recorded"}
"""Connectors whose `model` is always a file."""


def default_name(path: str) -> str:
    """Return the default name of a dataset in the privacy ledger.

    This is folder and file name, or host and database. It excludes user and password of an address, because names
    appear in reports and experiments.
    """
    _, separator, rest = path.partition("://")
    public = rest.rsplit("@", 1)[-1] if separator else path.split(":")[-1]
    parts = Path(public.split("?")[0]).with_suffix("").parts[-2:]
    return "/".join(part.strip("/") for part in parts if part.strip("/")) or "private"


def dataset_name(rows: PrivateRows) -> str:
    """Return the name of private rows in the privacy ledger."""
    return rows.dataset or rows.name or default_name(rows.path)


def dataset_of(config: AnyConfig) -> tuple[str, bool]:
    """Return the name of the charged dataset, and True if its rows are public and need no cap.

    Each party of a federation has a cap in its own ledger.
    """
    rows = config.private
    if rows is None:
        return config.parties.name if config.parties else "", True
    return dataset_name(rows), rows.is_public_source


def resolve_path(path: str, root: str | None) -> str:
    """Return `path`, joined to `root` if it is a relative file path."""
    special = ":" in path or path.startswith("~") or Path(path).is_absolute()
    return path if special or root is None else str(Path(root) / path)


def rows_ref(rows: Rows, root: str | None, run_seed: int = 0) -> RowsRef:
    """Return the reference to configured rows; public rows add the run's seed."""
    is_public = isinstance(rows, PrivateRows) and rows.rows_are_public
    columns: dict[str, Any] = {
        name: getattr(rows, name) for name in ("text", "label", "rows", "query", "plain_text")
    }
    columns |= {name: getattr(rows, name, None) for name in ("of", "class_alpha", "person")}
    return RowsRef(
        path=resolve_path(rows.path, root),
        seed=rows.seed + run_seed * is_public,
        public=is_public,
        classes=tuple((name, tuple(prefixes)) for name, prefixes in (rows.classes or {}).items()),
        **columns,
    )


def vocabulary_of(config: AnyConfig) -> VocabularyChoice | None:
    """Return the vocabulary of a configuration, or None."""
    vocabulary = getattr(config, "vocabulary", None)
    return vocabulary if isinstance(vocabulary, VocabularyChoice) else None


def terms_ref(choice: VocabularyChoice, root: str | None) -> TermsRef:
    """Return the reference to the terms of a vocabulary."""
    return TermsRef(
        resolve_path(choice.path, root), **choice.model_dump(exclude={"path", "embedder"})
    )


def model_spec(plm: Plm, root: str | None, home: Path | None = None) -> ModelSpec:
    """Return the model spec for the registry; files are relative to `root`."""
    model = resolve_path(plm.model, root) if plm.model else ""
    if plm.connector not in FILES and not Path(model).is_dir():
        model = plm.model
    return ModelSpec(plm.name, plm.connector, model, plm.connector_options, home)


def embedder_of(choice: EmbedderChoice) -> Embedder:
    """Open the embedder of a configuration."""
    return open_embedder(choice.connector, choice.model, choice.options)
