"""Typed parameters shared by all flows.

A YAML file, the form in the Prefect UI and the CLI use the same field names. An unknown key is an error that suggests
the nearest valid name (see `flows.config.files`).
"""

from functools import partial
from operator import eq, is_
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from connectors.interfaces.addresses import BaseFolder, TaskName
from connectors.interfaces.json_values import Json
from connectors.interfaces.money import format_dollars
from flows.config.execution import Evaluation, Execution, Export, Limits, StudentChoice, Tracking
from flows.config.form import SET, Rule, Rules, Strict, tasks, without_empty, without_null
from flows.config.identity import BY_CONTENT, NOT_IDENTITY
from flows.config.method import AnyMethod, PlannedCalls, declared_earlier
from flows.config.models import PAID, EmbedderChoice, Plm, requested_plm
from flows.config.privacy import Calibration, LossPolicy, Privacy
from flows.config.rows import CorpusRows, PartiesChoice, PrivateRows, Rows
from tasks.private.votes.promise import Paper

NO_ROWS = "this flow uses no private data. Remove this group"


class AnyConfig(Strict):
    """Configuration of a run of any method, with or without private data."""

    first: ClassVar[tuple[str, ...]] = (
        "private",
        "privacy",
        "method",
        "execution",
        "plms_used",
        "task",
        "test",
    )
    hidden: ClassVar[dict[str, str]] = dict.fromkeys(("private", "parties"), NO_ROWS)

    is_whole = True
    flow_name: ClassVar[str] = ""
    """Name of the flow in the catalogue that this configures."""

    task: Annotated[TaskName, BY_CONTENT] = Field(
        json_schema_extra=tasks,
        description="Path of a file, or",
    )
    data_root: Annotated[BaseFolder | None, NOT_IDENTITY] = Field(
        None, description="Base folder for relative paths of data and models."
    )
    private: PrivateRows | None = Field(
        None,
        json_schema_extra=without_null,
        description="Private data, which is never sent anywhere. `parties` replaces it.",
    )
    parties: PartiesChoice | None = Field(
        None, description="Several parties hold private data of their own; replaces `private`."
    )
    test: Rows | None = Field(
        None, description="Real test data for accuracy and FID; never used in training."
    )
    public: Rows | None = Field(None, description="Public data for metrics that may be published.")
    public_corpus: CorpusRows | None = Field(
        None,
        # Earlier versions had no such field: without a corpus it must not change the id of a run.
        exclude_if=partial(is_, None),
        description="Public texts that join the written ones, labelled by the released density. Needs method.guidance "
        "auto or kernel, and soft labels.",
    )
    plms: Annotated[list[Plm], BY_CONTENT] = Field(
        min_length=1, description="Language models that generate texts (K in the paper)."
    )
    plms_used: Annotated[list[str] | None, BY_CONTENT] = Field(
        None,
        title="Models",
        description="Names of the models in `plms` to use, or further ones as CONNECTOR:MODEL, such as "
        "openai:gpt-4o-mini. Empty: all of `plms`.",
    )
    embedder: EmbedderChoice = EmbedderChoice()
    privacy: LossPolicy = LossPolicy()
    method: AnyMethod = AnyMethod()
    student: StudentChoice = StudentChoice()
    text_labels: Literal["auto", "written", "soft", "hard"] = Field(
        "auto",
        # Earlier versions had no such field: at its default it must not change the id of a run.
        exclude_if=partial(eq, "auto"),
        description="Labels of the final texts. written: the class that each text was written for. soft: also the "
        "probabilities of a linear head, which students learn and exports contain (label_soft). hard: the most likely "
        "class also replaces the label. With a released density the head adapts to it, otherwise it uses no private "
        "row. auto: soft if method.guidance is auto and opens the rows, else written. Uses no budget.",
    )
    evaluation: Evaluation = Evaluation()
    tracking: Annotated[Tracking, NOT_IDENTITY] = Tracking()
    limits: Annotated[Limits, NOT_IDENTITY] = Limits()
    export: Annotated[Export, NOT_IDENTITY] = Export()
    execution: Execution = Execution()

    rules: ClassVar[Rules] = {
        Rule("evaluation.fid_reference", ("public",), "public", SET): (
            "evaluation.fid_reference is 'public', but there are no public rows. Set public or write test"
        ),
        Rule("evaluation.unnoised_figures", (True,), "private.rows_are_public", (True,)): (
            "evaluation.unnoised_figures compares with the records without noise, for public benchmarks only. Remove "
            "it, or set private.rows_are_public if the rows are public"
        ),
        Rule("student.adaptation", ("coral",), "public", SET): (
            "student.adaptation is coral, but there are no public rows. Set public to texts that may be used without "
            "protection"
        ),
    }

    @property
    def epsilon(self) -> float:
        """Epsilon: 0 without private data, infinite without a privacy guarantee."""
        return 0.0

    @property
    def guarantee(self) -> Privacy | None:
        """Privacy guarantee for the private data; None if the method gives none."""
        return None

    @property
    def few_shot_rows(self) -> Rows | None:
        """Rows shown in prompts; their owner released them."""
        return None

    @property
    def open_rows(self) -> dict[str, Rows]:
        """Rows that are read without noise, by field."""
        rows = {
            "test": self.test,
            "public": self.public,
            "public_corpus": self.public_corpus,
            "few_shot": self.few_shot_rows,
        }
        return {field: chosen for field, chosen in rows.items() if chosen is not None}

    @property
    def students(self) -> list[tuple[str, str, str]]:
        """Field, kind and model of every classifier that the run trains."""
        return [("student", self.student.kind, self.student.model)]

    @property
    def warnings(self) -> list[str]:
        """Warnings of the method about its settings, shown before a run; none by default."""
        return []

    @property
    def labels_texts(self) -> bool:
        """True if texts get soft labels."""
        return self.text_labels in ("soft", "hard")

    @property
    def uses_private_rows(self) -> bool:
        """True if this process or a party reads private data."""
        return self.private is not None or self.parties is not None

    @property
    def measures_records(self) -> bool:
        """True if the run also measures figures that need its records without noise (NOT PRIVATE)."""
        return self.evaluation.unnoised_figures and self.private is not None

    @property
    def finds_topics(self) -> bool:
        """True if prompts describe the classes by terms that a release chose."""
        return False

    def without_rows(self) -> Self:
        """Return the configuration of a run that opens no private rows; the same if it has none."""
        return self

    @property
    def models(self) -> list[Plm]:
        """All language models of the run, generators first."""
        return list(self.plms)

    @property
    def writers(self) -> tuple[str, ...]:
        """Names of the PLMs."""
        return tuple(plm.name for plm in self.plms)

    @property
    def planned_calls(self) -> list[PlannedCalls]:
        """Expected model calls if no call is repeated; by default one per text."""
        earlier: list[PlannedCalls] | None = declared_earlier(self, "asks", "planned_calls")
        return earlier or [PlannedCalls(self.writers, self.method.samples)]

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return without_empty(values, {"test": Rows, "public": Rows})

    @model_validator(mode="before")
    @classmethod
    def _select_plms(cls, values: Any) -> Any:
        # Before validation: a model that is not used needs no valid settings. Other errors come later.
        if not isinstance(values, dict):
            return values
        used = values.get("plms_used")
        plms = values.get("plms")
        # A form sends an empty list for none.
        if used == []:
            return {name: value for name, value in values.items() if name != "plms_used"}
        if not isinstance(used, list) or not isinstance(plms, list):
            return values
        chosen = [plm for plm in plms if not _names_of(plm).isdisjoint(map(str, used))]
        known = set().union(*map(_names_of, chosen))
        further = [_further_plm(entry, plms) for entry in map(str, used) if entry not in known]
        return values | {"plms": [*chosen, *further]}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names: dict[str, str] = {}
        for name in (plm.name for plm in self.models):
            # Each name is a folder, and some file systems ignore case.
            earlier = names.get(name.casefold())
            if earlier is not None:
                problem = "is used twice"
                if earlier != name:
                    problem = f"differs from {earlier!r} in case only"
                raise ValueError(f"plms: the name {name!r} {problem}. Give each PLM a unique name")
            names[name.casefold()] = name
        unpriced = [
            plm.name for plm in self.models if plm.connector in PAID and plm.stated_price is None
        ]
        # Calls without a price would count as free, and the limit would never be reached.
        if self.limits.max_dollars is not None and unpriced:
            raise ValueError(
                f"limits.max_dollars: a limit of {format_dollars(self.limits.max_dollars)} dollars needs the price of "
                f"{', '.join(map(repr, unpriced))}. Set the price of each, for example price={{input: 0.15, output: "
                "0.6} in dollars per million tokens (zeros for a free server), or remove the limit."
            )
        fills = [plm.name for plm in self.plms if plm.connector == "fill_mask"]
        if fills:
            raise ValueError(
                f"plms: {fills[0]!r} is a fill_mask model, which only fills gaps. Choose a model that generates texts"
            )
        if self.public_corpus is not None and not self.method.releases_density:
            raise ValueError(
                "public_corpus: this run releases no density that could label its texts. Use the method wasp with "
                "method.guidance auto or kernel, or remove public_corpus"
            )
        return self


def _names_of(plm: object) -> set[str]:
    """Return what `plms_used` may call a model: its name, and CONNECTOR:MODEL; before or after validation."""
    fields = plm if isinstance(plm, dict) else getattr(plm, "__dict__", {})
    return {str(fields.get("name")), f"{fields.get('connector')}:{fields.get('model')}"}


def _further_plm(entry: str, plms: list[object]) -> Json:
    """Return the fields of a model that is not among `plms`; ValueError unless it is CONNECTOR:MODEL."""
    try:
        return requested_plm(entry)
    except ValueError:
        names = [name for plm in plms for name in _names_of(plm) if ":" not in name]
        raise ValueError(
            f"plms_used: there is no PLM {entry!r}. Choose from {', '.join(names)}, or write CONNECTOR:MODEL, such as "
            "openai:gpt-4o-mini"
        ) from None


class RunConfig(AnyConfig):
    """Configuration of a run on private data, for any method.

    Attributes:
        paper: the paper whose noise formula `privacy.calibration: paper` uses.
    """

    paper: ClassVar[Paper] = "wasp"
    hidden: ClassVar[dict[str, str]] = {}

    privacy: Privacy = Privacy()

    @property
    def epsilon(self) -> float:
        """Configured epsilon."""
        return self.privacy.epsilon

    @property
    def guarantee(self) -> Privacy | None:
        """Privacy guarantee for the private data."""
        return self.privacy

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Values of `privacy.calibration` that the method supports."""
        return ("tight", "paper")

    @property
    def runs_without_rows(self) -> bool:
        """True if the flow writes texts without any private row when none are configured."""
        return False

    @model_validator(mode="after")
    def _check_data_owner(self) -> Self:
        if self.private is None and self.parties is None and self.runs_without_rows:
            return self
        if (self.private is None) == (self.parties is None):
            raise ValueError(
                "private: set either the private rows (private.path) or the parties that hold them "
                "(parties.registry), and not both"
            )
        return self

    @model_validator(mode="after")
    def _calibration_fits(self) -> Self:
        if self.privacy.calibration not in self.calibrations:
            raise ValueError(
                "privacy.calibration: no paper has a formula for the noise of this run. Set tight"
            )
        return self

    @model_validator(mode="after")
    def _person_fits(self) -> Self:
        if self.privacy.protects != "person" or self.private is None:
            return self
        if self.private.person is None and self.private.dataset is None:
            raise ValueError(
                "privacy.protects is 'person': set private.person to the column that identifies a person"
            )
        if self.private.takes_exactly:
            raise ValueError(
                "privacy.protects is 'person': private.rows takes a fixed number of rows, so removing one person adds "
                "rows of others. Set private.of to the rounded size of the source, or leave private.rows empty"
            )
        return self


class OwnRowsConfig(RunConfig):
    """Configuration of a method that does not support several parties."""

    private: PrivateRows

    hidden: ClassVar[dict[str, str]] = {
        "parties": "this method does not support several parties. Remove it"
    }


NO_TEXTS = "this flow writes no texts and calls no language model. Remove the field"


class NoTexts(Strict):
    """Fields of `AnyConfig` that have no effect on a flow that only trains a student."""

    plms: list[Plm] = Field([])

    hidden: ClassVar[dict[str, str]] = dict.fromkeys(
        ("public", "public_corpus", "plms", "plms_used", "evaluation", "limits", "export"), NO_TEXTS
    )
    rules: ClassVar[Rules] = {}

    planned_calls: ClassVar[list[PlannedCalls]] = []
    """No planned calls."""


class NoTextsMethod(AnyMethod):
    """Method settings of a flow that only trains a student."""

    iterations: int = 1
    samples: int = 0

    hidden: ClassVar[dict[str, str]] = {"iterations": NO_TEXTS, "samples": NO_TEXTS}


RECORDS_ONLY: Rules = {
    Rule("task", SET, "privacy.protects", ("record",)): (
        "privacy.protects: this method protects single records only. Write record"
    ),
}
DP_SGD_RULES: Rules = RECORDS_ONLY | {
    Rule("task", SET, "privacy.adjacency", ("add_remove",)): (
        "privacy.adjacency: the steps of DP-SGD are accounted for add_remove only. Write add_remove"
    ),
}


class TrainingConfig(OwnRowsConfig):
    """Configuration of a method whose only release is a training by DP-SGD."""

    rules: ClassVar[Rules] = DP_SGD_RULES | OwnRowsConfig.rules

    calibrations: ClassVar[tuple[Calibration, ...]] = ("tight",)

    @model_validator(mode="after")
    def _can_be_accounted(self) -> Self:
        if self.private.takes_exactly:
            raise ValueError(
                "private.rows: a fixed number of rows makes a removal a replacement, which is not supported here. Set "
                "private.of to the rounded size of the source, or leave private.rows empty"
            )
        return self
