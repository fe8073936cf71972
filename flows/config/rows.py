"""Typed parameters of data: tables with their columns, private rows, registered datasets, a vocabulary, parties."""

import re
from functools import partial
from operator import eq, is_
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from connectors.interfaces.addresses import ExchangeAddress, FolderName, PublicFile, ShippedRows
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.rows import ALPHAS, BUILTIN, MIN_RATIO, OTHERS
from connectors.interfaces.text_forms import check_class_name
from connectors.rows.queries import READING, check_query
from connectors.security.secret_patterns import PUBLIC
from flows.config.form import SET, UNSET, Rule, Rules, Strict
from flows.config.identity import BY_CONTENT, NOT_IDENTITY, TABLE_BY_CONTENT
from flows.config.models import EmbedderChoice

DATABASE = {"pattern": r"^(sqlite|postgresql|mysql|mariadb|oracle|mssql)(\+\w+)?://"}
"""Schema of the address of a database."""


class Rows(Strict):
    """Location of a table, with its columns and row selection."""

    first: ClassVar[tuple[str, ...]] = ("path", "text", "label")
    emptied: ClassVar[tuple[str, ...]] = ("path",)

    path: Annotated[PublicFile, TABLE_BY_CONTENT] = Field(
        description="File or folder (csv, jsonl, parquet; local, s3://, gs://), database URL, builtin:NAME/FILE, or "
        "env:NAME of a variable with an address.",
        json_schema_extra={"pattern": PUBLIC},
    )
    text: str = Field("text", description="Text column.")
    label: str = Field(
        "label", description="Label column. Empty: rows without classes, for a task without labels."
    )
    rows: int | None = Field(None, ge=1, description="Number of rows to use. Empty: all.")
    seed: int = Field(0, ge=0, description="Seed of the row selection.")
    query: str | None = Field(
        None,
        json_schema_extra={"anyOf": [{"type": "string", "pattern": READING}, {"type": "null"}]},
        description="SQL query for a database URL: one SELECT, or a WITH that ends in a SELECT. The database is opened "
        "read-only.",
    )
    classes: dict[str, list[str]] | None = Field(
        None,
        # Here and below: at its default, a field that was added later must not change the id of a run.
        exclude_if=partial(is_, None),
        description="For label codes: the code prefixes of each class, for example ICD chapters. The longest matching "
        "prefix decides. '*' stands for all other codes. Rows without a code or class are skipped.",
    )

    plain_text: bool = Field(
        False,
        exclude_if=partial(eq, False),
        description="Lower-case the texts and remove their punctuation (the preprocessing of Song et al. 2024).",
    )

    rules: ClassVar[Rules] = {
        Rule(
            "path", DATABASE, "query", SET
        ): "query: is missing for rows of a database. Write one SELECT",
        Rule(
            "label", ("",), "classes", UNSET
        ): "classes: the rows have no label column. Set label, or remove classes",
    }

    @field_validator("query")
    @classmethod
    def _check_query(cls, query: str | None, info: ValidationInfo) -> str | None:
        if query is not None:
            check_query(query, info.data.get("path", ""))
        return query

    @field_validator("classes")
    @classmethod
    def _check_prefixes(cls, classes: dict[str, list[str]] | None) -> dict[str, list[str]] | None:
        if classes is None:
            return None
        prefixes = [prefix for of_class in classes.values() for prefix in of_class]
        duplicates = sorted({prefix for prefix in prefixes if prefixes.count(prefix) > 1})
        if duplicates:
            raise ValueError(
                f"the prefix {duplicates[0]!r} belongs to two classes. Remove it from one"
            )
        # An empty prefix begins every code: the class would take all rows.
        if not all(of_class and all(of_class) for of_class in classes.values()):
            raise ValueError(
                "a class has no prefix, or an empty one. List at least one code prefix for each class, or '*' for all "
                "other codes"
            )
        stars = [prefix for prefix in prefixes if OTHERS in prefix and prefix != OTHERS]
        if stars:
            raise ValueError(
                f"the prefix {stars[0]!r} contains '*', which stands alone for all other codes. Write "
                f"{stars[0].replace(OTHERS, '')!r}"
            )
        return classes


DATASET_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""Form of the name of a registered dataset."""
NO_DATASET = rf"^$|{DATASET_NAME}"
"""Pattern of a form's field for it, which may be empty."""
LOCATED: Json = {
    "required": ["path"],
    "properties": {"path": {"minLength": 1}},
}
"""Schema of private rows that have a location of their own."""
OWNERS = (
    "path",
    "text",
    "label",
    "query",
    "classes",
    "person",
    "name",
    "group",
    "rows_are_public",
    "class_alpha",
)
"""Fields that only the owner of a registered dataset sets."""
PRESET = ("path", "name", "declared_rows")
"""Fields of a preset's rows that a registered dataset replaces."""


class PrivateRows(Rows):
    """Private rows: a registered dataset, or a location; only the private zone reads them.

    A plain name is short for `dataset: NAME`.
    """

    # A server starts no run on private records whose classes nobody declared, so a form takes registered ones.
    first: ClassVar[tuple[str, ...]] = ("dataset",)
    emptied: ClassVar[tuple[str, ...]] = ()

    model_config = ConfigDict(
        json_schema_extra={
            "if": LOCATED,
            "else": {"required": ["dataset"], "properties": {"dataset": {"minLength": 1}}},
        }
    )

    dataset: Annotated[str | None, BY_CONTENT] = Field(
        None,
        exclude_if=partial(is_, None),
        description="Name of a registered dataset: wasp dataset add NAME --path FILE. Its owner has set location, "
        "columns, classes and number of rows.",
        json_schema_extra={"anyOf": [{"type": "string", "pattern": NO_DATASET}, {"type": "null"}]},
    )
    path: Annotated[ShippedRows, TABLE_BY_CONTENT] = Field(
        "",
        description="If `dataset` is empty: file or folder (csv, jsonl, parquet; local, s3://, gs://), database URL, "
        "or env:NAME of a variable with it.",
        json_schema_extra={"pattern": PUBLIC},
    )
    of: int | None = Field(
        None,
        ge=1,
        description="Declared, rounded size of the source; needs `rows`. Each row is then sampled independently with "
        "probability rows/of. Empty: exactly `rows` are used and noise is sqrt(2) larger, because removing one row "
        "adds another.",
    )
    declared_rows: int | None = Field(
        None,
        ge=1,
        exclude_if=partial(is_, None),
        description="Public, rounded number of rows (of persons, if persons are protected). method.guidance: auto "
        "decides with it. It changes no noise and need not be exact. Not needed with `rows`.",
    )
    rows_are_public: bool = Field(
        False,
        exclude_if=partial(eq, False),
        description="The source is public, such as a benchmark. Exactly `rows` are drawn, stratified by class, with "
        "the seeds of rows and run. The guarantee covers the drawn rows. Never for private data.",
    )
    class_alpha: float | None = Field(
        None,
        ge=ALPHAS[0],
        le=ALPHAS[1],
        exclude_if=partial(is_, None),
        description="Parameter of a Dirichlet draw of the class proportions of public rows, repeated until the largest "
        "class has twice the rows of the smallest; 0.3 in the code of WASP's authors. Empty: the proportions "
        "of the source.",
    )
    person: str | None = Field(
        None,
        description="Column that identifies the person; required for privacy.protects: person.",
    )
    name: Annotated[FolderName | None, TABLE_BY_CONTENT] = Field(
        None, description="Name of the dataset in the privacy ledger. Empty: folder and file name."
    )

    # The group is charged as well, but the run is the same.
    group: Annotated[str | None, NOT_IDENTITY] = Field(
        None,
        description="Group of datasets about the same people, including this one. Each release from one is charged to "
        "all, permanently. Empty: the group in the privacy ledger, if any.",
    )

    rules: ClassVar[Rules] = Rows.rules | {
        Rule(
            "of", SET, "rows", SET
        ): "of ({0.of}) is the size of the source. Set rows to at most {0.of}",
        Rule("rows_are_public", (True,), "rows", SET): (
            "rows_are_public needs a number of rows. Set rows, or remove rows_are_public"
        ),
        Rule("rows_are_public", (True,), "of", UNSET): (
            "of ({0.of}) has no effect on public rows. Remove of or rows_are_public"
        ),
        Rule("class_alpha", SET, "rows_are_public", (True,)): (
            "class_alpha draws public rows. Set rows_are_public, or remove class_alpha"
        ),
    }

    @model_validator(mode="before")
    @classmethod
    def _accept_name(cls, values: Any) -> Any:
        """Accept a name alone; a named dataset replaces the rows of a preset, which come with the package."""
        if isinstance(values, str):
            return {"dataset": values}
        if not isinstance(values, dict):
            return values
        if values.get("dataset") == "":
            # A form may send an empty text for no dataset.
            return {name: value for name, value in values.items() if name != "dataset"}
        if not values.get("dataset"):
            return values
        # Other paths stay, and `_is_located` refuses them.
        if not str(values.get("path", "")).startswith(BUILTIN):
            return values
        return {name: value for name, value in values.items() if name not in PRESET}

    @model_validator(mode="after")
    def _is_located(self) -> Self:
        if self.dataset is None and not self.path:
            raise ValueError(
                "no rows are named. Write the name of a registered dataset (private: NAME), or set path"
            )
        if self.dataset is None:
            return self
        if re.fullmatch(DATASET_NAME, self.dataset) is None:
            raise ValueError(
                f"'{self.dataset}' is not a name of a dataset. List the registered ones with: wasp dataset list"
            )
        defaults = {name: type(self).model_fields[name].default for name in OWNERS}
        # A run may ignore the classes of the dataset.
        if not self.label:
            del defaults["label"]
        changed = [name for name, default in defaults.items() if getattr(self, name) != default]
        if changed:
            raise ValueError(
                f"{changed[0]}: the owner of dataset '{self.dataset}' has set it. Remove it"
            )
        return self

    @model_validator(mode="after")
    def _sample_fits(self) -> Self:
        if self.of is not None and self.rows is not None and self.rows > self.of:
            raise ValueError(
                f"of ({self.of}) is the size of the source. Set rows to at most {self.of}"
            )
        return self

    @property
    def public_rows(self) -> str:
        """Sentence about public rows for plan and report; empty if the rows are private."""
        if not self.rows_are_public:
            return ""
        classes = "stratified by class"
        if self.class_alpha is not None:
            classes = (
                f"unbalanced classes by Dirichlet({self.class_alpha:g}), at least {MIN_RATIO} to 1"
            )
        return f"rows are public: exactly {self.rows} are drawn, {classes}, and the guarantee covers the drawn rows"

    @property
    def is_public_source(self) -> bool:
        """True if the rows are public: declared so, or shipped."""
        return self.rows_are_public or self.path.startswith(BUILTIN)

    @property
    def public_number(self) -> int | None:
        """Number of rows as far as it is public: `rows`, or the declared number."""
        return self.rows or self.declared_rows

    @property
    def takes_exactly(self) -> bool:
        """True if the number of rows is fixed: removing one row then adds another."""
        return self.rows is not None and self.of is None and not self.rows_are_public


class DatasetView(Rows):
    """Location and columns of a registered dataset. Runs cannot change them."""

    first: ClassVar[tuple[str, ...]] = ()
    emptied: ClassVar[tuple[str, ...]] = ()

    path: str = Field(
        description="File, folder, database URL or env:NAME, as in a configuration; absolute."
    )
    person: str | None = Field(None, description="Column that identifies the person.")
    declared_rows: int | None = Field(
        None, ge=1, description="Declared, rounded number of rows; public."
    )
    separate: bool = Field(
        False,
        description="Other datasets of the same place, or with the same values of `person`, contain other people.",
    )
    declared_classes: list[Annotated[str, AfterValidator(check_class_name)]] | None = Field(
        None,
        exclude_if=partial(is_, None),
        description="Classes of the records as their owner declares them; public. Empty: not declared yet, so that no "
        "run starts. Null: registered by an earlier version, without a label column, or with `classes`.",
    )

    hidden: ClassVar[dict[str, str]] = {
        "rows": "a run chooses its rows. Write private.rows in its configuration",
        "plain_text": "a run chooses the form of its texts. Write private.plain_text in its configuration",
    }

    @property
    def public_classes(self) -> list[str] | None:
        """Classes that the owner declared, by name or by their codes; None if there is no declaration."""
        if self.classes:
            return list(self.classes)
        return self.declared_classes

    def to_json(self) -> Json:
        """Return the view as the ledger stores it."""
        # Rows and seed are of a run; the ledger identifies the whole dataset.
        return self.model_dump(mode="json", exclude={"rows", "seed"})

    @field_validator("path")
    @classmethod
    def _no_password(cls, path: str) -> str:
        if re.match(PUBLIC, path) is None:
            raise ValueError(
                "the address contains a password (not shown). Write env:NAME and set that variable"
            )
        return path


def check_name(name: str) -> str:
    """Return the name of a dataset to register; ConfigError unless it is a plain word."""
    if re.fullmatch(DATASET_NAME, name) is None:
        raise ConfigError(
            f"NAME: '{name}' is not a name of a dataset. Use up to 100 letters, digits, dots, hyphens and underscores"
        )
    return name


class CorpusRows(Rows):
    """Public texts of a similar domain. The release of the run labels them, and they join the written texts."""

    first: ClassVar[tuple[str, ...]] = ()
    emptied: ClassVar[tuple[str, ...]] = ()

    label: str = ""
    source: Annotated[str, NOT_IDENTITY] = Field(
        min_length=1,
        max_length=200,
        description="Where the texts are from, such as a title or an address; on the card of a bundle and in its "
        "column `source`.",
    )
    licence: Annotated[str, NOT_IDENTITY] = Field(
        min_length=1,
        max_length=200,
        description="Licence that permits to share the texts, such as cc-by-4.0; on the card of a bundle.",
    )

    hidden: ClassVar[dict[str, str]] = dict.fromkeys(
        ("label", "classes"), "the release labels these texts, no class is read. Remove it"
    )
    rules: ClassVar[Rules] = {
        rule: message for rule, message in Rows.rules.items() if rule.field == "path"
    }


class VocabularyChoice(Strict):
    """A public vocabulary; it must not be derived from private data."""

    path: Annotated[PublicFile, TABLE_BY_CONTENT] = Field(
        description="File of terms (words or phrases): csv, jsonl, parquet, a text file (.txt) with one per line, a "
        "file of word vectors (.txt, GloVe), or builtin:vocabularies/demo.parquet. PUBLIC: never derive it from "
        "private data."
    )
    term: str = Field("term", description="Term column.")
    rank: str = Field("rank", description="Rank column, 1 is first. Empty: file order.")
    skip: int = Field(
        0,
        ge=0,
        description="Number of top-ranked terms to skip, because they carry little meaning.",
    )
    shortest: int = Field(
        3, ge=1, le=100, description="Minimum number of letters and digits of a term."
    )
    embedder: EmbedderChoice | None = Field(
        None, description="Embedder of the terms. Empty: the embedder of the run."
    )


class PartiesChoice(Strict):
    """Parties that hold private data and vote locally; only sums are visible."""

    registry: Annotated[PublicFile, BY_CONTENT] = Field(
        description="File of the parties' public keys, one line each: NAME: ed25519:KEY (wasp party prints it), and "
        "the coordinator's (wasp run prints it)."
    )
    minimum: int | None = Field(
        None,
        ge=2,
        description="Minimum number of parties in a sum if others fail; sets the noise per party. Empty: all.",
    )
    colluding: int = Field(
        1,
        ge=0,
        description="Number of parties that may reveal their noise or add none without breaking the guarantee; the "
        "others add more. From 1 on, parties are also protected from each other, because each reads the sums.",
    )
    exchange: Annotated[ExchangeAddress, NOT_IDENTITY] = Field(
        description="Location of messages between parties: a shared folder, s3://BUCKET/PREFIX, gs:// or abfs://.",
        json_schema_extra={"pattern": PUBLIC},
    )
    minutes: Annotated[float, NOT_IDENTITY] = Field(
        10.0, gt=0, le=1440, description="Timeout per party and stage, in minutes."
    )
    name: Annotated[FolderName, NOT_IDENTITY] = Field(
        "federation",
        min_length=1,
        description="Name of the joint dataset of all parties in the privacy ledger.",
    )
