"""The configuration of WASP (Zou et al. 2025, Algorithm 1)."""

from functools import cached_property
from typing import ClassVar, Self

from pydantic import model_validator

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.languages import ENGLISH, described
from flows.config.base import RunConfig
from flows.config.form import SET, UNSET, Rule, Rules
from flows.config.method import DENSITIES, PlannedCalls, WaspMethod
from flows.config.privacy import Calibration
from flows.config.task_files import load_task
from flows.engine.label_advice import has_unnamed
from flows.methods.wasp.calibration import calibrated
from flows.methods.wasp.opening import UseDecision
from tasks.guidance.topics import LEAST_CLASSES, has_words


class WaspConfig(RunConfig):
    """Configuration of a WASP run."""

    flow_name: ClassVar[str] = "wasp"

    method: WaspMethod = WaspMethod()

    rules: ClassVar[Rules] = RunConfig.rules | {
        Rule("parties", SET, "method.iterations", {"minimum": 2}): (
            "method.iterations: 1 needs no votes, so no party is asked. Write 2 or more, or no parties"
        ),
        Rule("method.guidance", DENSITIES, "parties", UNSET): (
            "method.guidance is '{0.method.guidance}', which does not support several parties. Write votes"
        ),
        Rule("method.guidance", DENSITIES, "privacy.calibration", ("tight",)): (
            "privacy.calibration: 'paper' is the noise of votes, but with method.guidance '{0.method.guidance}' no "
            "record votes. Set method.guidance: votes, or privacy.calibration: tight"
        ),
    }

    @classmethod
    def stored(cls, values: Json) -> Json:
        """Return the values of a manifest; one without `method.guidance` releases votes, as in earlier versions."""
        return values | {"method": {"guidance": "votes", **values["method"]}}

    @classmethod
    def identifying(cls, values: Json) -> Json:
        """Return the values that determine the id of a run; votes are the guidance of earlier versions."""
        method = dict(values["method"])
        if method.get("guidance") == "votes":
            del method["guidance"]
        return values | {"method": method}

    @model_validator(mode="after")
    def _check_density(self) -> Self:
        joined = self.privacy.protects == "person" and self.privacy.joined_by
        if self.method.releases_density and joined and joined != "mean":
            raise ValueError(
                f"privacy.joined_by is '{joined}', but method.guidance '{self.method.guidance}' averages a person's "
                "rows. Write mean"
            )
        return self

    @property
    def runs_without_rows(self) -> bool:
        """True for `auto`: without private rows it writes texts at epsilon 0."""
        return self.method.guidance == "auto"

    # Cached: most properties of a plan ask for it, and it reads the task file and calibrates noise.
    @cached_property
    def opening(self) -> UseDecision | None:
        """Decision of guidance `auto` on the private rows, from public numbers; None without rows or `auto`.

        Raises ConfigError if the number of rows is not declared.
        """
        if self.method.guidance != "auto":
            return None
        if self.private is None:
            self._refuse_idle_settings("there are no private rows")
            return None
        # The noise depends on settings alone: the decision reveals nothing about the rows.
        sigma = calibrated(self).sigma
        opening = UseDecision(
            self.declared_rows,
            self.classes,
            sigma,
            protects=self.privacy.protects,
            language=self.other_language,
            unnamed=self.has_unnamed_classes,
        )
        if not opening.opens:
            self._refuse_idle_settings(
                f"{self.declared_rows} {opening.units} of {self.classes} classes are too few at this epsilon"
            )
        return opening

    def _refuse_idle_settings(self, why: str) -> None:
        """Raise ConfigError for a setting that has no effect because no private row guides the texts."""
        for name in ("contrast", "weighting", "weights_by"):
            value = getattr(self.method, name)
            if value != WaspMethod.model_fields[name].default:
                raise ConfigError(
                    f"method.{name}: {value} has no effect, because no private row guides the texts with "
                    f"method.guidance 'auto': {why}. Set method.guidance: votes, or remove it"
                )
        if self.public_corpus is not None:
            raise ConfigError(
                f"public_corpus: no release labels its texts with method.guidance 'auto': {why}. Set method.guidance: "
                "kernel and text_labels: soft, or remove public_corpus"
            )

    @property
    def labels_classes(self) -> bool:
        """True if texts get soft labels of several classes; the label of a single class says nothing."""
        return self.labels_texts and self.classes > 1

    def require_effect(self) -> None:
        """Raise ConfigError if a released density would change nothing: no prompt, no share of a model, no label."""
        if self.method.examples or (self.method.weighting and len(self.plms) > 1):
            return
        if not (self.labels_classes or self.finds_topics):
            raise ConfigError(
                "method.examples: 0 leaves the released density without effect: prompts show no examples, shares of "
                "models are fixed, and no label of a text depends on it. Set examples to 2 or more, or, for several "
                "classes, text_labels: soft"
            )

    @property
    def is_better_without_examples(self) -> bool:
        """True if only bundled small models write, their prompts show examples, and a density labels the texts."""
        return (
            self.releases_density
            and self.labels_classes
            and self.method.examples > 0
            and not self.finds_topics
            and all(plm.is_listed for plm in self.plms)
        )

    @property
    def declared_rows(self) -> int:
        """Public number of private rows; ConfigError if it is missing."""
        number = self.private.public_number if self.private else None
        if number is None:
            raise ConfigError(
                "private.declared_rows: missing, but method.guidance 'auto' decides with it whether to open the rows. "
                "Set the rounded number of your rows, which changes no noise, or set method.guidance: kernel or votes"
            )
        return number

    @property
    def has_unnamed_classes(self) -> bool:
        """True if all class names are numbers or codes without descriptions."""
        return has_unnamed(load_task(self.task).labels)

    @property
    def finds_topics(self) -> bool:
        """True if terms near a released density describe the classes in prompts: many, whose names say nothing."""
        return (
            self.method.releases_density
            and self.classes >= LEAST_CLASSES
            and self.has_unnamed_classes
            and has_words(load_task(self.task).language)
        )

    @property
    def classes(self) -> int:
        """Number of classes of the task."""
        return len(load_task(self.task).labels)

    @property
    def other_language(self) -> str:
        """Language of the task with its code; empty for English."""
        language = load_task(self.task).language
        if language == ENGLISH:
            return ""
        return described(language)

    @property
    def releases_density(self) -> bool:
        """True if the run releases a density; false if private records vote or stay closed."""
        return self.method.releases_density and (
            self.method.guidance != "auto" or self.uses_private_rows
        )

    @property
    def uses_private_rows(self) -> bool:
        """False if `auto` keeps the rows closed."""
        return super().uses_private_rows and (self.opening is None or self.opening.opens)

    @property
    def labels_texts(self) -> bool:
        """True if texts get soft labels, by choice or because `auto` opens the rows."""
        chosen = (
            self.text_labels == "auto"
            and self.classes > 1
            and self.opening is not None
            and self.uses_private_rows
        )
        return super().labels_texts or chosen

    @property
    def epsilon(self) -> float:
        """Configured epsilon; 0 without private rows."""
        if self.private is None and self.parties is None:
            return 0.0
        return super().epsilon

    def without_rows(self) -> Self:
        """Return the configuration of the same run without private rows, if they stay closed."""
        if self.uses_private_rows:
            return self
        return self.model_copy(update={"private": None})

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Possible values of `privacy.calibration`; the paper's noise covers votes only."""
        if self.method.releases_density:
            return ("tight",)
        return ("tight", "paper")

    @property
    def planned_calls(self) -> list[PlannedCalls]:
        """Planned calls: the first iteration without examples, later ones with S examples per prompt."""
        # Without a release there are no examples to show.
        examples = self.method.examples if self.uses_private_rows else 0
        return self.method.calls_of(self.writers, examples)
