"""Warnings before a run starts and spends budget; they contain public numbers only."""

from pathlib import Path

from connectors.interfaces.text_forms import cell_form
from flows.config.base import AnyConfig
from flows.config.paths import rows_ref
from flows.config.privacy import Privacy
from flows.config.rows import PrivateRows
from flows.engine.datasets import view_of
from flows.engine.form_advice import form_warnings
from flows.engine.label_advice import label_warnings
from flows.engine.language_advice import language_warnings
from flows.runtime.state_folder import open_to_others, state_folder
from flows.runtime.stores import open_ledger
from tasks.accounting.guarantee import Guarantee
from tasks.private.release import Release
from tasks.writing.keyphrase_prompts import FLOW, SUPPORT_TASK
from tasks.writing.prompts import TaskCard


def warnings_of(config: AnyConfig, card: TaskCard, guarantee: Guarantee[Release]) -> list[str]:
    """Return the warnings to show before the run starts; they contain public numbers only."""
    warnings: list[str] = []
    if config.private is not None and config.private.path:
        warnings += _about_path(config.private, config)
    if config.private is not None and card.has_classes:
        warnings += _about_classes(config.private, card)
    if guarantee.non_private:
        warnings.append(
            "privacy.epsilon is infinite: NO NOISE is added, results of this run must not be shared"
        )
    warnings += [
        f"model '{plm.name}': counted with the shipped price of {listed.price.date}, {listed.price.input:g} and "
        f"{listed.price.output:g} dollars per million tokens in and out. Compare {listed.source}, or set price"
        for plm in config.models
        if (listed := plm.listed_price) is not None
    ]
    warnings += _about_models(config)
    warnings += language_warnings(card.language, config.models, config.embedder)
    warnings += form_warnings(card, config.plms)
    # Prompts of DP-KPS name no class.
    if config.plms and config.flow_name != FLOW:
        warnings += label_warnings(card.labels)
    warnings += _about_phrase_examples(config, card)
    warnings += config.warnings
    if config.test is None:
        warnings.append("no test rows: accuracy and FID are not measured")
    if config.guarantee is not None:
        warnings += _about_privacy(config, config.guarantee)
    return warnings + [
        warning for release in guarantee.releases for warning in release.warnings(card)
    ]


def _about_models(config: AnyConfig) -> list[str]:
    """Return one warning for each group of PLMs with the same weights."""
    named: dict[tuple[str, str], list[str]] = {}
    for plm in config.plms:
        if plm.model:
            named.setdefault((plm.connector, plm.model), []).append(plm.name)
    return [
        f"plms {', '.join(names)}: one model ({model}) with {len(names)} settings, not {len(names)} models"
        for (_, model), names in named.items()
        if len(names) > 1
    ]


def _about_phrase_examples(config: AnyConfig, card: TaskCard) -> list[str]:
    """Return a warning for lists of DP-KPS that begin with lines of another task."""
    listed = ", ".join(plm.name for plm in config.plms if plm.is_listed)
    has_examples = bool(card.phrase_examples) or getattr(config, "few_shot", None) is not None
    is_fitting = has_examples or card.name == SUPPORT_TASK
    if config.flow_name != FLOW or not listed or is_fitting:
        return []
    return [
        f"task: '{card.name}' has no instructions.phrase_examples, so prompts of {listed} begin with two lines of a "
        "support desk, and texts resemble them. Write two made-up lines of your kind of text into the task file"
    ]


def _about_path(private: PrivateRows, config: AnyConfig) -> list[str]:
    path = Path(rows_ref(private, config.data_root).path).expanduser()
    if not open_to_others(path):
        return []
    return [f"private.path: every user of this machine can read {path}. Run: chmod go-rwx {path}"]


def _about_classes(private: PrivateRows, card: TaskCard) -> list[str]:
    """Return which of the declared classes of a registered dataset the task lacks."""
    if private.dataset is None:
        return []
    declared = view_of(open_ledger(state_folder()), private.dataset).public_classes or []
    forms = {cell_form(name) for name in card.label_names}
    others = [name for name in declared if cell_form(name) not in forms]
    if not others:
        return []
    return [
        f"private: the task lacks {len(others)} declared classes ({', '.join(others)}). Their records are left out"
    ]


def _about_privacy(config: AnyConfig, privacy: Privacy) -> list[str]:
    if config.private is None:
        return _about_parties(config)
    warnings = []
    if config.private.takes_exactly and privacy.adjacency == "add_remove":
        warnings.append(
            "private.rows: a fixed number of rows makes a removal a replacement, so noise is sqrt(2) larger. "
            "Set private.of to the rounded size of the source, or leave private.rows empty"
        )
    tuning = config.method.tuning
    if privacy.protects == "record" and (person := _person_of(config.private)):
        warnings.append(
            f"privacy.protects is record, but the rows have a person column ('{person}'): only single rows are "
            "protected. Write person to protect all rows of a person"
        )
    # The declared number only: a warning that depended on the records would say something about them.
    declared = config.private.of or config.private.public_number
    if not declared and tuning is not None:
        declared = tuning.declared_rows
    if declared is not None and privacy.delta >= 1 / declared:
        warnings.append(
            f"privacy.delta: {privacy.delta:g} is not below 1/{declared} (the declared number of rows), so it allows "
            f"publishing a whole row. Set a smaller value, such as {0.1 / declared:.0e}"
        )
    return warnings


def _person_of(private: PrivateRows) -> str | None:
    """Return the person column of the configuration, or of the registered dataset."""
    if private.dataset is None:
        return private.person
    return view_of(open_ledger(state_folder()), private.dataset).person


def _about_parties(config: AnyConfig) -> list[str]:
    if config.parties is None or config.parties.colluding:
        return []
    return [
        "parties.colluding is 0: the guarantee holds against readers of the sums, not against a party that subtracts "
        "its own noise. Set 1 to protect the parties from each other as well"
    ]
