"""Define the `wasp` command line.

With --json the last line on standard output is one JSON object.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from connectors.interfaces.errors import ConfigError, ProblemsError, WaspError
from connectors.interfaces.redaction import redact
from flows.catalog import find_flow, flow_names
from flows.cli.answers import answers
from flows.cli.audit import audit
from flows.cli.budget import budget
from flows.cli.bundle import export, verify_bundle
from flows.cli.common import Commands, Json, Verbose, answer_plan, print_problems
from flows.cli.common import answer as _answer
from flows.cli.compare import compare
from flows.cli.dataset import dataset
from flows.cli.party import partition, party
from flows.config.named import file_of, flow_and_file, flow_of

FlowName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help=f"A configuration by name, such as demo; or, with --config, a flow: {', '.join(flow_names())}.",
    ),
]
NamedConfig = Annotated[Path | None, typer.Option("--config", "-c", help="Configuration file (YAML) of a flow.")]
ConfigName = Annotated[
    str | None, typer.Argument(metavar="NAME", help="A configuration by name, such as demo; or --config FILE.")
]
FlowOption = Annotated[str | None, typer.Option("--flow", help="Flow of the file. Default: the one that it names.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="Change one value: privacy.epsilon=2. Repeatable.")
]
AGE = "Age like 90m, 12h, 30d, 4w"
COLLECTED_AFTER = 10_000, 20, 50
"""Thresholds of the garbage collector. Imports create no garbage, and scanning their objects with the defaults
(700, 10, 10) takes an eighth of a short run."""

app = typer.Typer(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Turn a few hundred private texts into a shareable synthetic training set under differential privacy.",
)
app.add_typer(budget, name="budget")
app.add_typer(dataset, name="dataset")
app.add_typer(answers, name="answers")


def _print_version(requested: bool) -> None:
    if requested:
        print(f"wasp {metadata.version('wasp-synth')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: ARG001  (its callback prints it)
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show warnings and results only.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show Prefect's log too.")] = False,
) -> None:
    """Prepare the environment, and set what all commands show; called before each of them."""
    from flows.runtime.state_folder import prepare_environment

    prepare_environment()
    if quiet:
        os.environ["WASP_QUIET"] = "1"
    if verbose:  # Prefect reads it on its first import
        os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "INFO"


def main() -> None:
    """Run the command; print a WaspError as a message and exit with its code."""
    gc.set_threshold(*COLLECTED_AFTER)
    try:
        app()
    except WaspError as error:
        _fail(error)


def _fail(error: WaspError) -> None:
    if "--json" in sys.argv:
        print(json.dumps({"state": "refused", "error": type(error).__name__, "message": redact(str(error))}))
    # each problem of a configuration gets its own line
    problems = str(error).splitlines() if isinstance(error, ProblemsError) else [str(error)]
    print_problems(problems)
    raise SystemExit(error.exit_code)


@app.command()
def init(  # noqa: PLR0913 - the options of the command
    name: str,
    data: Annotated[str, typer.Option(help="CSV, JSON Lines or Parquet file, database URL, or env:NAME.")],
    text: Annotated[str | None, typer.Option(help="Text column. Default: by its name.")] = None,
    label: Annotated[str | None, typer.Option(help="Label column. Default: by its name.")] = None,
    person: Annotated[
        str | None, typer.Option(help="Column that identifies the person: persons are protected. none: records are.")
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(min=0.01, max=0.5, help="Part of the rows or persons to hold out as test rows, such as 0.15."),
    ] = None,
    query: Annotated[str | None, typer.Option(help="SQL query of a database: one SELECT.")] = None,
    class_: Annotated[
        list[str] | None, typer.Option("--class", help="A class. Repeatable. Default: frequent labels.")
    ] = None,
    item: Annotated[str, typer.Option(help="What a text is, in a few words, for prompts.")] = "text",
    model: Annotated[
        list[str] | None,
        typer.Option(help="CONNECTOR:MODEL, such as openai:gpt-4o-mini. Repeatable. Default: a local server or key."),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Base URL of your own server for the models, such as http://HOST:8000/v1.")
    ] = None,
    declared_rows: Annotated[
        int | None, typer.Option(min=1, help="Public number of rows, or of persons if protected. Default: rounded.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language of the texts (ISO 639-1). Default: proposed.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Declare the proposed classes, number and language: they become public.")
    ] = False,
    epsilon: Annotated[float, typer.Option(help="Epsilon of a run.")] = 4.0,
    epsilon_cap: Annotated[float | None, typer.Option(help="Maximum total epsilon of all runs. Default: 8.")] = None,
    json_: Json = False,
) -> None:
    """Register your own data and write a configuration and a task file for it."""
    from flows.cli import init_command

    source = init_command.Source(data, query, text, label, person, test_share)
    choices = init_command.Choices(
        class_ or [], item, model or [], declared_rows, epsilon, epsilon_cap, endpoint, language, yes
    )
    result = init_command.init(name, source, choices)
    _answer(init_command.public_part(result) if json_ else result, json_, init_command.described)


@app.command()
def schema(kind: Annotated[str, typer.Argument(help=f"task, or a flow: {', '.join(flow_names())}.")] = "wasp") -> None:
    """Print the JSON schema of a configuration or task file, for editors."""
    from flows.cli.init_command import editor_schema
    from flows.config.task_files import TaskFile

    print(json.dumps(editor_schema(TaskFile if kind == "task" else find_flow(kind).config), indent=1))


@app.command()
def run(
    name: FlowName,
    config: NamedConfig = None,
    set_: Changes = None,
    json_: Json = False,
    local_parties: Annotated[
        int | None, typer.Option(min=2, help="Also start the processes of the parties of a federated try.")
    ] = None,
) -> None:
    """Run a flow; reuse finished steps of the same run."""
    from flows.cli import commands

    flow, config = flow_and_file(name, config, flow_names())
    _answer(commands.run(flow, config, set_ or [], local_parties), json_, find_flow(flow).text().summary)


@app.command()
def resume(
    run_id: str,
    respend: Annotated[
        bool, typer.Option("--respend", help="Regenerate lost texts. If they differ, vote and pay again.")
    ] = False,
    json_: Json = False,
) -> None:
    """Resume a run after a crash or a failed step; nothing is paid or spent twice."""
    from flows.cli import commands

    summary = commands.resume(run_id, respend)
    _answer(summary, json_, find_flow(summary["flow"]).text().summary)


@app.command()
def plan(
    name: FlowName,
    config: NamedConfig = None,
    set_: Changes = None,
    json_: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show privacy, cost, budget (exit code 3 if the cap refuses) and problems (2) of a run; spend nothing."""
    from flows.cli import commands
    from flows.releases.opening import measured_line

    flow, config = flow_and_file(name, config, flow_names())
    value, to_text = commands.plan(flow, config, set_ or []), find_flow(flow).text().plan
    measured = [measured_line(value["opening"])] if verbose and value.get("opening") else []
    answer_plan(value, json_, lambda value: "\n".join([to_text(value), *measured]))


@app.command()
def advise(  # noqa: PLR0913 - the options of the command
    name: ConfigName = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Configuration of `wasp` (YAML).")] = None,
    set_: Changes = None,
    json_: Json = False,
    rows: Annotated[int | None, typer.Option(help="Rounded number of private rows.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Epsilon of one release.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of the release.")] = 1e-5,
    verbose: Verbose = False,
) -> None:
    """Show the expected worth of opening private rows; open none, spend nothing."""
    from flows.cli import commands
    from flows.releases.opening import advice_text, measured_line

    numbers = {"rows": rows, "classes": classes, "epsilon": epsilon, "delta": delta}
    file = file_of(name, config, "advise") if name or config else None
    value = commands.advise(file, set_ or [], numbers)
    measured = [measured_line(value)] if verbose else []
    _answer(value, json_, lambda value: "\n".join([advice_text(value), *measured]))


@app.command()
def preview(
    name: ConfigName = None,
    config: NamedConfig = None,
    set_: Changes = None,
    json_: Json = False,
    rows: Annotated[int, typer.Option(min=1, max=100, help="Rows per model and class.")] = 5,
    flow: FlowOption = None,
) -> None:
    """Show sample texts per model and class; epsilon spent: 0."""
    from flows.cli import commands
    from flows.engine import text

    file = file_of(name, config, "preview")
    _answer(commands.preview(file, set_ or [], rows, flow or flow_of(file, flow_names())), json_, text.preview)


@app.command()
def runs(
    flow: Annotated[str | None, typer.Option(help="Only runs of this flow.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only runs on this dataset.")] = None,
    state: Annotated[str | None, typer.Option(help="Only runs in this state: done, failed, interrupted, ...")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the newest runs.")] = None,
    json_: Json = False,
) -> None:
    """List the runs of this state folder, newest first."""
    from flows.cli import commands
    from flows.engine import text

    filters = {name: value for name, value in {"flow": flow, "dataset": dataset, "state": state}.items() if value}
    _answer(commands.runs(filters, limit), json_, text.runs)


@app.command()
def show(run_id: str, json_: Json = False) -> None:
    """Show the summary, iterations and files of a run."""
    from flows.cli import commands
    from flows.engine import text

    details = commands.show(run_id)
    _answer(details, json_, lambda value: text.shown(value, find_flow(value["flow"]).text().summary))


@app.command()
def report(run_id: str, json_: Json = False) -> None:
    """Rewrite the HTML report of a run and print its path."""
    from flows.cli import commands

    _answer(commands.report(run_id), json_, lambda value: str(value["report"]))


app.command()(audit)
app.command()(compare)
app.command()(export)
app.command("verify-bundle")(verify_bundle)
app.command()(partition)
app.command()(party)


@app.command()
def push(
    run_id: Annotated[str | None, typer.Argument()] = None,
    all_: Annotated[bool, typer.Option("--all", help="Send all runs that MLflow lacks something of.")] = False,
    json_: Json = False,
) -> None:
    """Send a run to MLflow, or what was not sent of all runs while its server was down."""
    from flows.cli import commands

    if (run_id is None) != all_:
        raise ConfigError("push: name one run, or all. Write: wasp push RUN, or: wasp push --all")
    result = commands.push(run_id)
    lines = [f"{run['run_id']}: {run['problem'] or 'complete in MLflow'}" for run in result["runs"]]
    _answer(result, json_, lambda _: "\n".join(lines) or "MLflow has all runs")
    if any(run["problem"] for run in result["runs"]):
        raise SystemExit(1)


@app.command()
def abandon(run_id: str, json_: Json = False) -> None:
    """Abandon a run and return its reserved, unspent budget to the dataset."""
    from flows.cli import commands

    _answer(commands.abandon(run_id), json_, lambda value: f"returned to dataset {value['dataset']}")


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def clean(
    context: typer.Context,
    intermediate: Annotated[
        str | None,
        typer.Option(
            "--intermediate-older-than",
            help=f"{AGE}; texts by model of finished runs, embeddings, caches. Completions are paid again if needed.",
        ),
    ] = None,
    runs_: Annotated[
        str | None,
        typer.Option(
            "--runs-older-than", help=f"{AGE}; also synthetic rows, student and runs in MLflow, finished or not."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the files. Default: only show them.")] = False,
    json_: Json = False,
) -> None:
    """Show the state folder and the files to remove; --yes removes them.

    Releases, the privacy ledger, its key, manifests, summaries and reports are never removed.
    """
    from flows.cli import clean_command

    rules = clean_command.rules_of(intermediate, runs_, context.args)
    _answer(clean_command.clean(rules, yes), json_, clean_command.cleaned)


@app.command()
def doctor(
    name: ConfigName = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Call each of its language models once."),
    ] = None,
    set_: Changes = None,
    json_: Json = False,
    flow: FlowOption = None,
    private: Annotated[
        bool, typer.Option("--private", help="List the private rows that cannot be used; for their owner only.")
    ] = False,
) -> None:
    """Check this machine and, with a configuration, the needs of a run."""
    from flows.cli import commands
    from flows.engine import text

    file = file_of(name, config, "doctor") if name or config else None
    checks = commands.doctor(file, set_ or [], flow or (flow_of(file, flow_names()) if file else "wasp"), private)

    _answer(checks, json_, text.doctor)
    if not checks["healthy"]:
        raise SystemExit(1 if checks["ready"] else ConfigError.exit_code)


@app.command()
def serve(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of concurrent runs.")] = 4,
) -> None:
    """Execute runs that are started in the Prefect UI; one process for all flows."""
    from importlib.metadata import entry_points

    # Deployments import flows, so the command finds them by entry point.
    (command,) = entry_points(group="wasp.commands", name="serve")
    command.load()(limit)


if __name__ == "__main__":
    main()
