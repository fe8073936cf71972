"""The commands that start work: init, doctor, advise, plan, preview, run, resume, compare, audit and schema."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from connectors.interfaces.errors import BudgetError, ConfigError
from connectors.interfaces.json_values import Json
from flows.catalog import find_flow, flow_names
from flows.cli.common import Changes, ConfigFile, LocalParties, Output, show
from flows.cli.stored_runs import find_manifest, read_summary, resumable_manifest, runs
from flows.config.extends import flow_and_file
from flows.method import FlowEntry
from flows.runtime.interruption import ended_in_order
from flows.runtime.manifest import share_caches
from flows.runtime.state_folder import check_room, state_folder
from flows.runtime.stores import open_artifacts
from flows.runtime.terminal_progress import show as show_progress
from tasks.writing.forms import FORMS

ConfigName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help=f"A configuration by name, such as demo; or, with --config, a flow: {', '.join(flow_names())}.",
    ),
]

STATED_BY = {
    "rows": "private.declared_rows",
    "epsilon": "privacy.epsilon",
    "delta": "privacy.delta",
}
"""The fields of a configuration that state the numbers of `wasp advise`; the task file states the classes."""
NOTHING_TO_CHANGE = "--set: there is no configuration to change. Name one, or remove --set"


def init(  # noqa: PLR0913 - the options of the command
    name: Annotated[
        str | None, typer.Argument(help="Name of the dataset and of its files.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="CSV, JSON Lines, Parquet or Excel file, database URL, or env:NAME."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Text column. Default: by its name.")] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Label column; none: texts without classes. Default: by its name."),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="Column that identifies the person: persons are protected. none: records are."
        ),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.5,
            help="Part of the rows or persons to hold out as test rows, such as 0.15.",
        ),
    ] = None,
    query: Annotated[str | None, typer.Option(help="SQL query of a database: one SELECT.")] = None,
    class_: Annotated[
        list[str] | None,
        typer.Option("--class", help="A class. Repeatable. Default: frequent labels."),
    ] = None,
    item: Annotated[
        str | None, typer.Option(help="What one text is, in a few words, for prompts.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="CONNECTOR:MODEL, such as openai:gpt-4o-mini. Repeatable. Default: a local server or key."
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            help="Base URL of your own server for the models, such as http://HOST:8000/v1."
        ),
    ] = None,
    declared_rows: Annotated[
        int | None,
        typer.Option(
            min=1, help="Public number of rows, or of persons if protected. Default: rounded."
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of the texts (ISO 639-1). Default: proposed.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            help=f"Form of a text: {', '.join(FORMS)}. Default: proposed.",
            metavar="FORM",
        ),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(
            min=1, help="Length of a usual text in words, for prompts. Default: proposed."
        ),
    ] = None,
    descriptions: Annotated[
        Path | None,
        typer.Option(help="CSV file with CLASS,DESCRIPTION in each line, for prompts."),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Declare the proposed classes, number, language and form: they become public.",
        ),
    ] = False,
    epsilon: Annotated[float, typer.Option(help="Epsilon of a run.")] = 4.0,
    epsilon_cap: Annotated[
        float | None, typer.Option(help="Maximum total epsilon of all runs. Default: 8.")
    ] = None,
) -> Output:
    """Register your own data and write a configuration and a task file; without NAME or --data, ask for all."""
    from flows.cli import init_command
    from flows.cli.init_options import Options, PublicOptions, RowsOptions, RunOptions
    from flows.cli.init_questions import prompt_for_options

    options = Options(
        rows=RowsOptions(data, query, text, label, person, test_share),
        public=PublicOptions(class_ or [], declared_rows, language, yes, descriptions, form, words),
        run=RunOptions(item, model or [], endpoint, epsilon, epsilon_cap),
    )
    if name is not None and data is not None:
        return init_command.init(name, options)
    name, options = prompt_for_options(name, options)
    return _then_offered(init_command.init(name, options), name)


def _then_offered(output: Output, name: str) -> Output:
    """Print the result of `wasp init`, then offer the plan and a preview of the new configuration."""
    from flows.cli.init_obstacles import next_lines, obstacles_of_preview

    print(output.to_text(output))
    obstacles = list(output["obstacles"])
    if typer.confirm("\nShow the plan? It spends nothing", default=True):
        planned = plan(name)
        show(planned)
        obstacles += planned.problems
    if typer.confirm(
        "\nPreview two texts per model and class? No private record is used", default=True
    ):
        previewed = preview(name, rows=2)
        show(previewed)
        obstacles += obstacles_of_preview(previewed)
    lines = "\n          ".join(next_lines(name, obstacles))
    return Output(output | {"obstacles": obstacles}, lambda _: f"\nnext      {lines}")


def schema(
    kind: Annotated[
        str, typer.Argument(help=f"task, or a flow: {', '.join(flow_names())}.")
    ] = "wasp",
) -> None:
    """Print the JSON schema of a configuration or task file, for editors."""
    from flows.cli.init_files import editor_schema
    from flows.config.task_files import TaskFile

    model = TaskFile if kind == "task" else find_flow(kind).config
    print(json.dumps(editor_schema(model), indent=1))


def run(
    name: ConfigName = None,
    config: ConfigFile = None,
    set_: Changes = None,
    local_parties: LocalParties = None,
) -> Output:
    """Run a flow; reuse finished steps of the same run."""
    flow, file = flow_and_file(name, config, flow_names())
    if flow == "compare":
        return compare(config=file, set_=set_, local_parties=local_parties)
    loaded = _load(flow, file, set_)
    if local_parties is None:
        return run_flow(flow, loaded)
    from flows.federation import local_parties as parties

    with parties.local_parties(loaded, local_parties):
        return run_flow(flow, loaded)


def demo() -> Output:
    """Run WASP on the bundled data, without key or network; as `wasp run demo`."""
    return run("demo")


def compare(
    name: ConfigName = None,
    config: ConfigFile = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Only show problems, calls, dollars, epsilon, time, disk and memory."
        ),
    ] = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="With --plan: first let models without a price write five texts, for the time.",
        ),
    ] = False,
    set_: Changes = None,
    local_parties: LocalParties = None,
) -> Output:
    """Run a matrix of methods, settings and seeds; compare with published figures."""
    if measure and not plan:
        raise ConfigError("--measure: states the time in a plan. Add --plan")
    changes = list(set_ or [])
    # A setting rather than processes of this command: the comparison starts the parties of each of its cells.
    if local_parties:
        changes.append(f"local_parties={local_parties}")
    _, file = flow_and_file(name, config, flow_names())
    loaded = _load("compare", file, changes)
    if measure:
        from flows.compare.measuring import measure_models

        with show_progress(), share_caches(state_folder()):
            measure_models(loaded)
    return _plan_flow("compare", loaded) if plan else run_flow("compare", loaded)


def audit(
    name: ConfigName = None,
    config: ConfigFile = None,
    set_: Changes = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Draws of each release with and without the canary. Default: 1000."),
    ] = None,
    whole_run: Annotated[
        bool,
        typer.Option(
            "--whole-run", help="Also attack one whole run of wasp with 600 canaries (minutes)."
        ),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show what is attacked and what can be proven.")
    ] = False,
) -> Output:
    """Attack each noisy release of a run with made-up records; open no private row, spend no budget."""
    from flows.config.files import check_config

    # Prefect, which the flow imports, needs it.
    state_folder()
    flow, file = flow_and_file(name, config, flow_names())
    values: Json = {}
    if trials is not None:
        values["trials"] = trials
    if whole_run:
        values["pipeline"] = {}
    # A file of settings of the audit, not of a run.
    if flow == "audit":
        options = [f"{name}={json.dumps(value)}" for name, value in values.items()]
        checked = _load("audit", file, [*(set_ or []), *options])
    else:
        values |= {"config": str(file), "changes": set_}
        checked = check_config(find_flow("audit").config, values, "wasp audit")
    return _plan_flow("audit", checked) if plan else run_flow("audit", checked)


def resume(
    run_id: str,
    respend: Annotated[
        bool,
        typer.Option(
            "--respend", help="Regenerate lost texts. If they differ, vote and pay again."
        ),
    ] = False,
) -> Output:
    """Resume a run after a crash or a failed step; nothing is paid or spent twice."""
    from flows.config.files import read_stored

    manifest = resumable_manifest(run_id)
    # Not part of the run's id: the same run continues.
    if respend:
        privacy = manifest["config"]["privacy"] | {"on_lost_artifacts": "respend"}
        manifest = manifest | {"config": manifest["config"] | {"privacy": privacy}}
    config = read_stored(find_flow(manifest["flow"]).config, manifest)
    return run_flow(manifest["flow"], config, manifest["run_id"])


def plan(name: ConfigName = None, config: ConfigFile = None, set_: Changes = None) -> Output:
    """Show privacy, cost, budget (exit code 3 if the cap refuses) and problems (2) of a run; spend nothing."""
    flow, file = flow_and_file(name, config, flow_names())
    return _plan_flow(flow, _load(flow, file, set_))


def advise(  # noqa: PLR0913 - the options of the command
    name: ConfigName = None,
    config: ConfigFile = None,
    set_: Changes = None,
    rows: Annotated[int | None, typer.Option(help="Rounded number of private rows.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Epsilon of one release.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta of the release. Default: 0.00001.")
    ] = None,
    range_: Annotated[
        bool, typer.Option("--range", help="Compare epsilon 0.5 to 8 instead.")
    ] = False,
) -> Output:
    """Estimate what private rows would add. Reads none, spends nothing."""
    numbers = {"rows": rows, "classes": classes, "epsilon": epsilon, "delta": delta}
    if range_ and epsilon is not None:
        raise ConfigError("--range: compares epsilon 0.5 to 8. Remove --range or --epsilon")
    file = None
    if name or config:
        _refuse_stated(numbers)
        _, file = flow_and_file(name, config, flow_names())
    elif set_:
        raise ConfigError(NOTHING_TO_CHANGE)
    # Prefect, which the next imports load, needs it.
    home = state_folder()
    from flows.methods.wasp.opening import LEVELS, advice_text, range_text

    if not range_:
        return Output(_worth(file, set_ or [], numbers, home), advice_text)
    changes = [[*(set_ or []), f"privacy.epsilon={level}"] for level in LEVELS]
    levels = [
        _worth(file, changed, numbers | {"epsilon": level}, home)
        for changed, level in zip(changes, LEVELS, strict=True)
    ]
    return Output({"range": levels}, lambda value: range_text(value["range"]))


def _refuse_stated(numbers: Mapping[str, float | None]) -> None:
    """Raise ConfigError for a number of `wasp advise` that the configuration states."""
    for option, number in numbers.items():
        if number is None:
            continue
        instead = ""
        if option in STATED_BY:
            instead = f", or write: --set {STATED_BY[option]}={number}"
        raise ConfigError(f"--{option}: the configuration states it. Remove --{option}{instead}")


def _worth(
    file: Path | None, changes: Sequence[str], numbers: Mapping[str, float | None], home: Path
) -> Json:
    """Return what private rows would add to a run of a configuration, or to one of these numbers."""
    from flows.engine.datasets import with_declared_rows
    from flows.engine.plan import numbers_of
    from flows.methods.wasp.calibration import calibrated, density_noise
    from flows.methods.wasp.opening import UseDecision
    from tasks.accounting.promise import Promise

    budget = None
    if file is not None:
        loaded = with_declared_rows(_load("wasp", file, changes), home)
        epsilon = loaded.privacy.epsilon
        noise = calibrated(loaded)
        opening = UseDecision(
            loaded.declared_rows,
            loaded.classes,
            noise.sigma,
            protects=loaded.privacy.protects,
            language=loaded.other_language,
            unnamed=loaded.has_unnamed_classes,
        )
        budget = numbers_of(loaded)["budget"]
    else:
        delta = 1e-5 if numbers["delta"] is None else numbers["delta"]
        rows, classes, epsilon, delta = _positive(**(dict(numbers) | {"delta": delta}))
        if classes < 2:
            raise ConfigError(
                f"--classes: {classes:g} is too small. Write the number of classes, at least 2."
            )
        noise = density_noise(Promise(epsilon, delta))
        opening = UseDecision(rows, classes, noise.sigma)
    needed = None
    if not opening.opens:
        needed = opening.needed_epsilon(epsilon, noise.delta, noise.sensitivity)
    return opening.to_json() | {"epsilon": epsilon, "needed_epsilon": needed, "budget": budget}


def preview(
    name: ConfigName = None,
    config: ConfigFile = None,
    set_: Changes = None,
    rows: Annotated[int, typer.Option(min=1, max=100, help="Rows per model and class.")] = 5,
) -> Output:
    """Show sample texts per model and class; epsilon spent: 0."""
    from flows.engine.preview import preview_rows
    from tasks.reporting import terminal as text

    flow, file = flow_and_file(name, config, flow_names())
    loaded = _load(flow, file, set_)
    if not getattr(loaded, "models", ()):
        raise ConfigError(
            f"{flow}: this flow calls no language model. There is nothing to preview."
        )
    home = state_folder()
    with show_progress(), share_caches(home):
        return Output(preview_rows(loaded, home, rows), text.preview)


def doctor(
    name: ConfigName = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Call each of its language models once."),
    ] = None,
    set_: Changes = None,
) -> Output:
    """Check this machine and, with a configuration, the needs of a run."""
    from flows.cli.doctor import examine
    from tasks.reporting import terminal as text

    loaded = None
    if set_ and not (name or config):
        raise ConfigError(NOTHING_TO_CHANGE)
    if name or config:
        flow, file = flow_and_file(name, config, flow_names())
        if not find_flow(flow).resumable:
            command = f"wasp plan {flow}"
            if flow == "compare":
                command = f"wasp compare {shlex.quote(str(name or config))} --plan"
            raise ConfigError(
                f"{flow}: this flow has neither models nor rows. Check it with: {command}"
            )
        loaded = _load(flow, file, set_)
    checks = examine(loaded)
    # A mistake of the configuration has its own code, even if the machine has problems too.
    code = int(not checks["healthy"])
    if not checks["ready"]:
        code = ConfigError.exit_code
    return Output(checks, text.doctor, code)


def _load(flow: str, file: Path, changes: Sequence[str] | None) -> Any:
    """Return the configuration of a flow."""
    from flows.config.files import load_config

    # Prefect, which the flow imports, needs it.
    state_folder()
    return load_config(find_flow(flow).config, file, changes or [])


def run_flow(flow: str, config: Any, resumes: str | None = None) -> Output:
    """Check and run a flow; `resumes`: the run to resume."""
    home = state_folder()
    entry = find_flow(flow)
    check_room(home)
    from flows.runtime.failure import explain_prefect_failure

    with ended_in_order(), explain_prefect_failure(home), show_progress() as display:
        if entry.resumable:
            display.say("Checking data, models and privacy budget ...")
        summary = _run_checked(entry, config, resumes)
    return Output(summary, entry.text().summary)


def _run_checked(entry: FlowEntry, config: Any, resumes: str | None) -> Json:
    """Run a flow and return its summary, once its checks passed.

    Prefect with its temporary server starts only then, and not at all for a run that is finished.
    """
    from flows.engine.beforehand import finished_summary, prepare_beforehand
    from flows.runtime.failure import ErrorContext, explained_errors
    from flows.runtime.handover import handed_over
    from flows.runtime.prefect_settings import needs_configured_server
    from flows.runtime.temporary_server import start_ahead

    with explained_errors(ErrorContext()):
        checked = entry.check(config, resumes)
    # Opens private rows: only for a configuration without problems.
    _require_fitting_records(entry.name, config, state_folder())
    with explained_errors(ErrorContext()):
        ready = prepare_beforehand(checked)
        finished = finished_summary(ready)
    if finished is not None:
        return finished
    if not needs_configured_server():
        start_ahead()
    # The next imports load Prefect, while the server starts.
    flow = entry.flow()
    from flows.runtime.prefect_server import require_server

    require_server()
    # Only flows that can be resumed have the parameter.
    options = {"resumes": resumes} if resumes else {}
    with handed_over(entry.name, config, resumes, ready):
        summary: Any = flow(config, **options)
    return cast(Json, summary)


def _require_fitting_records(flow: str, config: Any, home: Path) -> None:
    from flows.engine.prepare import require_fitting_records

    configs = [config]
    if flow == "compare":
        from flows.compare.cells import cells_of

        configs = [cell.config for cell in cells_of(config)]
    # Cells of a comparison share their rows: each combination of rows and task is checked once.
    private = [run for run in configs if getattr(run, "private", None)]
    by_records = {str((run.private, run.task)): run for run in private}
    for config_of_records in by_records.values():
        require_fitting_records(config_of_records, home)


def _plan_flow(flow: str, config: Any) -> Output:
    from flows.methods.wasp.opening import with_zero_shot

    entry = find_flow(flow)
    value = dict(entry.plan(config))
    if value.get("opening") and (measured := _zero_shot_accuracy(flow, config)) is not None:
        value = with_zero_shot(value, measured)
    problems = list(value["problems"])
    code = ConfigError.exit_code if problems else 0
    budget = value.get("budget")
    # A run that was paid before is not charged again, and the cap does not refuse it.
    if budget and budget["refusal"] and not budget["repeats"]:
        problems.append(budget["refusal"])
        code = code or BudgetError.exit_code
    return Output(value, entry.text().plan, code, problems)


def _zero_shot_accuracy(flow: str, config: Any) -> float | None:
    """Return the accuracy of the first texts of the last finished run here; None if it had another task or model."""
    finished = [row for row in runs(flow, state="done")["runs"] if row["n_synthetic"]]
    if not finished:
        return None
    manifest = find_manifest(finished[0]["run_id"])
    stored = manifest["config"]
    asked = config.model_dump(mode="json")
    if any(stored.get(name) != asked.get(name) for name in ("task", "test", "plms", "embedder")):
        return None
    iterations = (read_summary(open_artifacts(state_folder()), manifest) or {}).get("iterations")
    return iterations[0].get("probe_accuracy") if iterations else None


def _positive(**numbers: float | None) -> list[Any]:
    """Return the values of options; ConfigError for one that is missing, not positive or infinite."""
    for name, value in numbers.items():
        if not value or not 0 < value < math.inf:
            raise ConfigError(
                f"--{name}: write a positive number, or name a configuration with --config."
            )
    return list(numbers.values())
