"""Everything that is checked before anything is spent: rows, models, numbers; then the run's plan and name."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError, PrivateInputError
from connectors.interfaces.ledger import BudgetPlan, Charge, Look
from flows.config.base import AnyConfig, RunConfig, WaspConfig
from flows.config.execution import PACE
from flows.config.method import Casting
from flows.config.privacy import Promise
from flows.config.rows import PrivateRows, Rows
from flows.config.task_files import load_task
from flows.engine.checks import require_ready
from flows.engine.federation import Federation, federation_of
from flows.engine.tools import RunName, RunTools
from flows.engine.warnings import warnings_of
from flows.methods.aug_pe.config import AugPeConfig
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.dp_kps.releases import check_keyphrases, few_shot_of, keyphrases_noise, terms_content, words_noise
from flows.methods.dp_sgd_gen.trainable import check_trainable
from flows.releases.moments import beside_moments
from flows.releases.teachers import noise_with_parts
from flows.runtime.paths import rows_ref
from flows.runtime.state_folder import who
from flows.storage.lost_releases import check_book
from tasks.accounting.density import calibrate_density
from tasks.accounting.dp_sgd import calibrate_training
from tasks.accounting.federated import shared_charge
from tasks.accounting.no_noise import exposure_charge, no_noise, no_release
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise, calibrate
from tasks.core.refs import Reference
from tasks.private.data.rows import Identity, identify
from tasks.text.prompts import TaskCard
from tasks.text.usable_texts import AT_LEAST

if TYPE_CHECKING:
    import pandas as pd

    from connectors.ledger.ledger import BudgetBook
    from flows.engine.approval import Approval
    from tasks.accounting.federated import SharedNoise

    Ask = Callable[[RunTools, TaskCard, Noise, Sequence[str]], Approval | None]


TRAINED = "a student trained on the private rows as they are: nothing bounds what one row changes"
"""What the budget book says of a run that trains on private rows."""

CARRYING_OUT: dict[str, Any] = {
    "execution": PACE,
    "privacy": {"on_lost_artifacts"},
    "embedder": {"backend"},
    "vocabulary": {"embedder": {"backend"}},
}
"""Settings that say how a run is carried out, not what it is: changing them makes no other run."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may start: its tools, task, noise, references, plan and what the user should know beforehand."""

    tools: RunTools
    config: AnyConfig
    card: TaskCard
    noise: Noise
    plan: BudgetPlan
    test: Reference | None
    public: Reference | None
    warnings: tuple[str, ...]
    approval: Approval | None
    shown: Reference | None = None
    federation: Federation | None = None

    @property
    def shared(self) -> SharedNoise | None:
        """The noise as parties share it; None where there are none."""
        return self.federation.shared(self.noise) if self.federation else None


def prepare(flow: str, config: AnyConfig, home: Path, ask: Ask | None = None) -> Prepared:
    """Check everything, identify the private dataset if there is one, make the plan; nothing is reserved or spent.

    `ask` is called when everything else is in order and before the private rows are opened for the first time.
    Raises ConfigError, InputError or PrivateInputError, and whatever `ask` raises.
    """
    card = load_task(config.task)
    check_numbers(config, card)
    check_keyphrases(config, card)
    require_ready(config, home)
    tools = RunTools(config, home)
    tools.artifacts.check()
    for model in config.models:
        tools.model(model.name)
    if config.method.tuning is not None and config.method.training_tokens:
        check_trainable(tools.weights(tools.plms[0]), config.method.training_tokens)
    test, test_rows = _reference("test", config.test, config, card, tools)
    public, public_rows = _reference("public", config.public, config, card, tools)
    shown, shown_rows = _reference("few_shot", few_shot_of(config), config, card, tools)
    outside = (test_rows, public_rows, shown_rows)
    texts = [text for rows in outside if rows is not None for text in rows["text"].tolist()]
    noise, federation = make_noise(config), federation_of(config)
    if federation is not None:
        federation.shared(noise)
        tools.exchange.below("rounds")
    warnings = tuple(warnings_of(config, card, noise))
    approval = ask(tools, card, noise, warnings) if ask is not None else None
    identity = _identify(tools, flow, card, texts) if config.private else None
    if federation is not None:
        identity = Identity(federation.fingerprint, ())
    contents = [reference.content if reference else None for reference in (test, public)]
    contents += [*([shown.content] if shown else []), *terms_content(tools)]
    run_name = _name(tools, flow, card, identity, contents)
    plan = BudgetPlan(run_name.run_id, flow, noise.delta, charges_of(config, noise, federation))
    return Prepared(
        tools.named(run_name), config, card, noise, plan, test, public, warnings, approval, shown, federation
    )


def _identify(tools: RunTools, flow: str, card: TaskCard, public_texts: Sequence[str]) -> Identity:
    """Return who the private rows are; that they were refused is a look at them, and the budget book is told."""
    try:
        return identify(tools.zone, tools.private, card.label_names, public_texts)
    except PrivateInputError as error:
        dataset = tools.ledger.known(tools.private.name)
        if dataset is not None:
            tools.ledger.look(
                Look(dataset, who(), flow, "", f"refusal of the rows ({error.code})", "message of the run")
            )
        raise


def make_noise(config: AnyConfig) -> Noise:
    """Return the calibrated noise of a configuration: that of all its releases together."""
    if not isinstance(config, RunConfig):
        return no_release() if config.private is None else no_noise()
    return noise_with_parts(config, _noise_and_moments)


def _noise_and_moments(config: RunConfig) -> Noise:
    return beside_moments(config, _own_noise)


def _own_noise(config: RunConfig) -> Noise:
    """Return the noise of a method by itself."""
    training, privacy = config.method.tuning, config.privacy
    if training is not None:
        return calibrate_training(training, privacy.epsilon, privacy.delta)
    if isinstance(config, DpKpsConfig):
        return keyphrases_noise(config)
    if isinstance(config, AugPeConfig) and config.counts_words:
        return words_noise(config, vote_privacy_of(config))
    if isinstance(config, WaspConfig) and config.method.density is not None:
        return calibrate_density(vote_privacy_of(config))
    return calibrate(vote_privacy_of(config))


def charges_of(config: AnyConfig, noise: Noise, federation: Federation | None = None) -> tuple[Charge, ...]:
    """Return what a run will write into the budget book, in order; nothing where it opens no private row."""
    if not noise.charges:
        return ()
    if federation is not None:
        return (shared_charge(federation.shared(noise)),) * noise.releases
    return noise.charges if isinstance(config, RunConfig) else (exposure_charge(TRAINED),)


def vote_privacy_of(config: RunConfig) -> VotePrivacy:
    """Return what a configuration promises about its votes.

    When exactly `rows` of a larger source are taken, removing one row lets another in: that is a replacement, and the
    noise is made for it even if add/remove is asked for.
    """
    privacy = config.privacy
    promise = vote_privacy(privacy, config.method.casting)
    adjacency = privacy.neighbours(config.private)
    return replace(promise, calibration=privacy.calibration, adjacency=adjacency, paper=config.paper)


def vote_privacy(promise: Promise, casting: Casting) -> VotePrivacy:
    """Return a promise about the votes of a run, in the accountant's terms."""
    return VotePrivacy(
        epsilon=promise.epsilon,
        delta=promise.delta,
        releases=casting.releases,
        votes=casting.votes,
        sides=casting.sides,
        choice_share=casting.choice_share,
        adjacency=promise.adjacency,
        protects=promise.protects,
        rows_per_person=promise.rows_per_person if promise.protects == "person" else 1,
        aggregation=promise.joined_by,
    )


def check_numbers(config: AnyConfig, card: TaskCard) -> None:
    """Refuse numbers that cannot give every model and class a text in each round."""
    method, models, classes = config.method, len(config.plms), len(card.labels)
    needed = models * classes
    for name, texts in method.starts.items():
        if texts < needed:
            raise ConfigError(
                f"method.{name}: {texts} texts are fewer than one per model and class "
                f"({models} PLMs x {classes} classes = {needed}); raise method.{name}"
            )
    if method.shared_over_rounds and method.samples < needed * method.iterations:
        raise ConfigError(
            f"method.samples: {method.samples} texts in {method.iterations} iterations leave less than one per model "
            f"and class in a round; raise method.samples to {needed * method.iterations} or lower method.iterations"
        )
    if isinstance(config, RunConfig) and method.casting.releases and method.candidates < AT_LEAST * classes:
        raise ConfigError(
            f"method: {method.candidates} candidates in the first vote are fewer than {AT_LEAST} per class ({classes} "
            f"classes). Raise {' or '.join(f'method.{name}' for name in method.starts)}, or lower method.iterations"
        )


def _reference(
    kind: str, rows: Rows | None, config: AnyConfig, card: TaskCard, tools: RunTools
) -> tuple[Reference | None, pd.DataFrame | None]:
    from connectors.rows.reader import check_public

    if rows is None:
        return None, None
    where = rows_ref(rows, config.data_root)
    frame = tools.read_rows(where)
    check_public(where, frame, card.label_names)
    return Reference(kind, where, digest(frame[["text", "label"]].to_dict("list"))), frame


def _name(
    tools: RunTools, flow: str, card: TaskCard, identity: Identity | None, contents: Sequence[str | None]
) -> RunName:
    config, dataset, fingerprint = tools.config, "", ""
    if identity is not None:
        fingerprint = identity.fingerprint
        key = tools.zone.key if config.private else ""
        dataset = tools.ledger.register(tools.rows_name, fingerprint, identity.records, key=key)
        if config.private is not None:
            join_group(tools.ledger, config.private, dataset)
        check_book(tools.artifacts, tools.ledger, dataset, fingerprint)
    aside = dict.fromkeys(("task", "data_root", "tracking", "limits", "plms", "plms_used", "filler", "export"), True)
    settings = config.model_dump(mode="json", exclude={**aside, **CARRYING_OUT})
    for rows in ("private", "test", "public", "few_shot", "vocabulary"):
        if settings.get(rows) is not None:
            settings[rows] |= {"path": "", "name": ""}
    if settings.get("private") is not None:
        del settings["private"]["group"]  # whoever else pays, the run is the same
    if settings.get("parties") is None:
        settings.pop("parties", None)
    else:  # who the parties are is in the fingerprint, how they are reached makes no other run
        settings["parties"] = {name: settings["parties"][name] for name in ("minimum", "colluding", "embeddings")}
    models = [[model.name, tools.model(model.name).identity] for model in config.models]
    content = digest([flow, asdict(card), settings, models, tools.embedder.identity, fingerprint, *contents])
    task = Path(config.task).stem.replace("_", "-")
    run_id = f"{flow}-{task}-e{config.epsilon:g}-s{config.execution.seed}-{content[:10]}"
    return RunName(run_id, flow, dataset, fingerprint)


def join_group(ledger: BudgetBook, private: PrivateRows, dataset: str) -> None:
    """Put the dataset into the group that the configuration names; a group is never left."""
    group = " ".join((private.group or "").split())
    if not group:
        return
    now = ledger.status(dataset).group
    if now not in ("", group):
        raise ConfigError(
            f"private.group: dataset '{dataset}' is in group '{now}', which it cannot leave, not in '{group}'. Write "
            f"'{now}', or make one group of both: wasp budget group {shlex.quote(now)} {dataset} OTHER_DATASET"
        )
    if not now:
        ledger.join(group, [dataset], who())
