"""The flows by name: what `wasp run FLOW` knows. Nothing is imported until a flow is asked for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError

if TYPE_CHECKING:
    from prefect import Flow
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Preset:
    """A filled form of a flow: its name in the UI, its file in deployments/configs, what it is, what stays empty."""

    name: str
    file: str
    summary: str
    blank: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowEntry:
    """One flow: where it lives, its configuration, what it does in a sentence, its filled forms.

    `config`, `planning`: dotted places of the class of its configuration and of what `wasp plan` calls with one.
    `words`: the module whose `plan` and `summary` word its answers. `result`: the file of a run that holds its summary.
    `opens_rows`: whether it opens private rows. `continued`: whether its runs keep a state: can be resumed, reported
    and given up. `asks_models`: whether it asks language models, so that there is something to look at beforehand.
    """

    name: str
    module: str
    config: str
    planning: str
    summary: str
    presets: tuple[Preset, ...] = ()
    words: str = "flows.engine.text"
    result: str = "summary.json"
    opens_rows: bool = True
    continued: bool = True
    asks_models: bool = True

    def flow(self) -> Flow[..., Any]:
        """Import and return the flow."""
        found: Flow[..., Any] = getattr(import_module(self.module), self.name)
        return found

    def config_class(self) -> type[BaseModel]:
        """Import and return the class of its configuration."""
        found: type[BaseModel] = _at(self.config)
        return found

    def plan(self, config: BaseModel) -> dict[str, Any]:
        """Return what a run with this configuration would do and spend."""
        found: dict[str, Any] = _at(self.planning)(config)
        return found

    def wording(self) -> Any:
        """Import and return the module that words its plan and its summary."""
        return import_module(self.words)


def _at(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(import_module(module), name)


OWN_DATA = "A start for your own rows: fill in the empty fields."
PARTIES = "Several parties hold the rows and are running (wasp party): name their registry and the exchange."

FLOWS = (
    FlowEntry(
        "wasp",
        "flows.methods.wasp.flow",
        "flows.config.base.WaspConfig",
        "flows.engine.plan.planned",
        "several language models write, private rows vote under DP, the best and worst become the next prompt",
        (
            Preset(
                "demo", "demo.yaml", "Our own support-desk texts and three embedded models: no key, about a minute."
            ),
            Preset("paper", "papers/wasp_imdb.yaml", "IMDb as the paper sets it (Table 1), six recorded models."),
            Preset("own-data", "own_data.yaml", OWN_DATA, ("private.path",)),
            Preset("density", "density_here.yaml", "The demo guided by one noisy density in place of votes."),
            Preset("federated", "federated_here.yaml", PARTIES, ("parties.registry", "parties.exchange")),
        ),
    ),
    FlowEntry(
        "pre_text",
        "flows.methods.pre_text.flow",
        "flows.methods.pre_text.config.PreTextConfig",
        "flows.engine.plan.planned",
        "a population evolves by the private rows' votes and masked words; language models write more of what survives",
        (
            Preset("demo", "pre_text_here.yaml", "PrE-Text on the demo's texts with embedded models: about a minute."),
            Preset("paper", "papers/pre_text_imdb.yaml", "PrE-Text's settings on IMDb, by hub ids: an accelerator."),
            Preset("own-data", "pre_text_own_data.yaml", OWN_DATA, ("private.path",)),
            Preset("federated", "federated_pre_text_here.yaml", PARTIES, ("parties.registry", "parties.exchange")),
        ),
    ),
    FlowEntry(
        "aug_pe",
        "flows.methods.aug_pe.flow",
        "flows.methods.aug_pe.config.AugPeConfig",
        "flows.engine.plan.planned",
        "language models vary their own texts, and the private rows' votes decide which live on",
        (
            Preset("demo", "aug_pe_here.yaml", "Aug-PE on the demo's texts with embedded models: about a minute."),
            Preset(
                "paper", "papers/aug_pe_yelp.yaml", "Aug-PE's settings on Yelp ratings, by hub ids: an accelerator."
            ),
            Preset("own-data", "aug_pe_own_data.yaml", OWN_DATA, ("private.path",)),
            Preset("paper-wasp", "papers/aug_pe_wasp_imdb.yaml", "Aug-PE on IMDb as the WASP paper runs it (Table 1)."),
        ),
    ),
    FlowEntry(
        "fusegen",
        "flows.methods.fusegen.flow",
        "flows.methods.fusegen.config.FuseGenConfig",
        "flows.engine.plan.planned",
        "language models write without private rows; students trained on their texts choose the next examples",
        (Preset("demo", "fusegen_here.yaml", "FuseGen on the demo's task with embedded models: about a minute."),),
        opens_rows=False,
    ),
    FlowEntry(
        "only_private",
        "flows.methods.only_private.flow",
        "flows.methods.only_private.config.OnlyPrivateConfig",
        "flows.engine.plan.planned",
        "trains a student on the private rows themselves: NOT PRIVATE, never to be shared, an upper bound",
        (Preset("demo", "only_private_here.yaml", "A student on the demo's private rows: NOT PRIVATE; a minute."),),
        asks_models=False,
    ),
    FlowEntry(
        "dp_sgd_gen",
        "flows.methods.dp_sgd_gen.flow",
        "flows.methods.dp_sgd_gen.config.DpSgdGenConfig",
        "flows.engine.plan.planned",
        "one local language model learns from the private rows by DP-SGD, then writes",
        (
            Preset(
                "demo", "dp_sgd_gen_here.yaml", "The demo's texts and a small GPT-2 that ships: no download, a minute."
            ),
            Preset("paper", "papers/dp_sgd_gen_imdb.yaml", "IMDb with GPT-2 of the hub, LoRA of rank 8."),
            Preset("own-data", "dp_sgd_gen_own_data.yaml", OWN_DATA, ("private.path", "method.declared_rows")),
        ),
    ),
    FlowEntry(
        "dp_sgd_student",
        "flows.methods.dp_sgd_student.flow",
        "flows.methods.dp_sgd_student.config.DpSgdStudentConfig",
        "flows.engine.plan.planned",
        "the student itself learns from the private rows by DP-SGD, with or without ghost clipping; no text is written",
        (
            Preset("demo", "dp_sgd_student_here.yaml", "A linear student on the demo's private rows: seconds."),
            Preset(
                "paper",
                "papers/dp_sgd_student_mtsamples.yaml",
                "MTSamples, the row Ghost of Song et al. 2024, Table 1.",
            ),
        ),
        asks_models=False,
    ),
    FlowEntry(
        "dp_kps",
        "flows.methods.dp_kps.flow",
        "flows.methods.dp_kps.config.DpKpsConfig",
        "flows.engine.plan.planned",
        "phrases drawn from noisy densities of the private rows' phrases seed the prompts of language models",
        (
            Preset("demo", "dp_kps_here.yaml", "DP-KPS on the demo's texts with embedded models: about a minute."),
            Preset("paper", "papers/dp_kps_dbpedia.yaml", "DBPedia-14 as the paper sets it (Table 4): a paid model."),
            Preset(
                "mimic",
                "papers/dp_kps_mimic.yaml",
                "Your own copy of MIMIC, classes by the beginnings of ICD codes: a paid model.",
                ("private.path", "vocabulary.path"),
            ),
            Preset("own-data", "dp_kps_own_data.yaml", OWN_DATA, ("private.path", "vocabulary.path")),
        ),
    ),
    FlowEntry(
        "kd_tutor",
        "flows.methods.kd_tutor.flow",
        "flows.methods.kd_tutor.config.KdTutorConfig",
        "flows.engine.plan.planned",
        "teachers on shards of the private rows say which texts look private; noisy label counts say how many of each "
        "class are kept",
        (
            Preset("demo", "kd_tutor_here.yaml", "Teachers on the demo's texts, embedded models: about a minute."),
            Preset("paper", "papers/kd_mtsamples.yaml", "MTSamples as the paper sets it, by hub ids: an accelerator."),
            Preset("own-data", "kd_tutor_own_data.yaml", OWN_DATA, ("private.path",)),
        ),
    ),
    FlowEntry(
        "audit",
        "flows.audit.flow",
        "flows.audit.config.AuditConfig",
        "flows.audit.run.planned",
        "attacks noisy releases, and a whole run if asked, with made-up records, and says what that proves of what is "
        "claimed",
        (
            Preset("demo", "audit_here.yaml", "Every mechanism at the privacy of the demo: under a minute."),
            Preset(
                "pipeline",
                "audit_pipeline_here.yaml",
                "One whole run of the embedded pipeline with 600 canaries, and its vote: about a minute and a half.",
            ),
        ),
        words="flows.audit.text",
        result="audit.json",
        opens_rows=False,
        continued=False,
        asks_models=False,
    ),
    FlowEntry(
        "compare",
        "flows.compare.flow",
        "flows.compare.config.CompareConfig",
        "flows.compare.values.planned",
        "carries out methods, settings and seeds as a matrix and puts the results beside published figures",
        (
            Preset("demo", "compare_here.yaml", "WASP, its ablations and rivals on the demo texts: 15 minutes."),
            Preset(
                "imdb", "papers/compare_imdb_here.yaml", "Tables 1, 4 and 5 of the WASP paper, IMDb, recorded models."
            ),
            Preset("paper", "papers/compare_table_1.yaml", "Table 1 of the WASP paper, by hub ids: an accelerator."),
        ),
        words="flows.compare.text",
        opens_rows=False,
        continued=False,
        asks_models=False,
    ),
)


def find_flow(name: str) -> FlowEntry:
    """Return the flow of that name; ConfigError with the nearest name and the list otherwise."""
    entries = {entry.name: entry for entry in FLOWS}
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise ConfigError(f"There is no flow '{name}'. {hint}Flows: {', '.join(entries)}")
    return entries[name]
