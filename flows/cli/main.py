"""The `wasp` command. Every command takes --json: its last line on standard output is then one JSON object."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from connectors.interfaces.errors import ConfigError, ProblemsError, WaspError
from connectors.interfaces.redaction import redact
from flows.catalog import find_flow, flow_names
from flows.cli.budget import budget
from flows.cli.bundle import export, verify_bundle
from flows.cli.common import Commands, Json, answer_plan, print_problems
from flows.cli.common import answer as _answer
from flows.cli.compare import compare
from flows.cli.partition import partition
from flows.cli.party import look_at, party, party_keys, party_leave
from flows.runtime.state_folder import prepare_environment

FlowName = Annotated[str, typer.Argument(help=f"Name of the flow: {', '.join(flow_names())}.")]
Config = Annotated[Path, typer.Option("--config", "-c", help="Configuration file (YAML).")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="Change one value: privacy.epsilon=2. Repeatable.")
]
AGE = "Age like 90m, 12h, 30d, 4w"
COLLECTED_AFTER = 10_000, 20, 50
"""New objects, rounds, and rounds of these before Python looks for garbage: what imports leave is none, and looking
through it at the usual 700, 10 and 10 takes an eighth of a short run."""

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="From a few hundred private texts to a training set that may be shared, under differential privacy.",
)
app.add_typer(budget, name="budget")


def main() -> None:
    """Run the command; errors that a user can act on end with their exit code and one message."""
    gc.set_threshold(*COLLECTED_AFTER)
    prepare_environment()
    try:
        app()
    except WaspError as error:
        _fail(error)


def _fail(error: WaspError) -> None:
    if "--json" in sys.argv:
        print(json.dumps({"state": "refused", "error": type(error).__name__, "message": redact(str(error))}))
    # several problems of one configuration have a line each
    problems = str(error).splitlines() if isinstance(error, ProblemsError) else [str(error)]
    print_problems(problems)
    raise SystemExit(error.exit_code)


@app.command()
def run(
    flow: FlowName,
    config: Config,
    set_: Changes = None,
    json_: Json = False,
) -> None:
    """Run a flow to its end; finished steps of the same run are reused."""
    from flows.cli import commands

    _answer(commands.run(flow, config, set_ or []), json_, find_flow(flow).text().summary)


@app.command()
def resume(
    run_id: str,
    respend: Annotated[
        bool, typer.Option("--respend", help="Make lost texts again: ask, and if they differ vote and pay, anew.")
    ] = False,
    json_: Json = False,
) -> None:
    """Continue a run after a crash or a failed step; nothing is paid or spent twice."""
    from flows.cli import commands

    done = commands.resume(run_id, respend)
    _answer(done, json_, find_flow(done["flow"]).text().summary)


@app.command()
def plan(flow: FlowName, config: Config, set_: Changes = None, json_: Json = False) -> None:
    """Say sigma, epsilon, calls, tokens and minutes, and what a run would stop on (exit code 2); nothing is spent."""
    from flows.cli import commands

    answer_plan(commands.plan(flow, config, set_ or []), json_, find_flow(flow).text().plan)


@app.command()
def preview(
    config: Config,
    set_: Changes = None,
    json_: Json = False,
    rows: Annotated[int, typer.Option(min=1, max=100, help="Rows per model and class.")] = 5,
    flow: Annotated[str, typer.Option(help="The flow that the configuration is of.")] = "wasp",
) -> None:
    """Show five rows per model and class; epsilon spent: 0."""
    from flows.cli import commands
    from flows.engine import text

    _answer(commands.preview(config, set_ or [], rows, flow), json_, text.preview)


@app.command()
def runs(json_: Json = False) -> None:
    """List the runs of this state folder."""
    from flows.cli import commands
    from flows.engine import text

    _answer(commands.runs(), json_, text.runs)


@app.command()
def show(run_id: str, json_: Json = False) -> None:
    """Show one run: its summary, its iterations and where its files are."""
    from flows.cli import commands
    from flows.engine import text

    found = commands.show(run_id)
    _answer(found, json_, lambda value: text.shown(value, find_flow(value["flow"]).text().summary))


@app.command()
def report(run_id: str, json_: Json = False) -> None:
    """Write the HTML report of a run again and say where it is."""
    from flows.cli import commands

    _answer(commands.report(run_id), json_, lambda value: str(value["report"]))


app.command()(compare)
app.command()(export)
app.command("verify-bundle")(verify_bundle)
app.command()(partition)
app.command()(party)
app.command("party-keys")(party_keys)
app.command("party-leave")(party_leave)


@app.command()
def answers(file: Path, json_: Json = False) -> None:
    """Write every kept answer into a Parquet file, which a `recorded` model replays without paying again."""
    from flows.cli import commands

    _answer(commands.answers(file), json_, lambda value: f"{value['answers']} answers in {value['file']}")


@app.command()
def push(run_id: str, json_: Json = False) -> None:
    """Send to MLflow what could not be sent while its server was down."""
    from flows.cli import commands

    _answer(commands.push(run_id), json_, lambda value: f"{value['sent']} records sent, {value['left']} left")


@app.command()
def abandon(run_id: str, json_: Json = False) -> None:
    """Give a run up: what it reserved and did not spend goes back to its dataset."""
    from flows.cli import commands

    _answer(commands.abandon(run_id), json_, lambda value: f"returned to dataset {value['dataset']}")


@app.command()
def clean(  # noqa: PLR0913  one option per rule
    embeddings: Annotated[str | None, typer.Option("--embeddings-older-than", help=f"{AGE}; computed again.")] = None,
    completions: Annotated[
        str | None, typer.Option("--completions-older-than", help=f"{AGE}; asked and paid again.")
    ] = None,
    samples: Annotated[
        str | None, typer.Option("--samples-older-than", help=f"{AGE}; texts by model of finished runs.")
    ] = None,
    unfinished: Annotated[
        str | None, typer.Option("--unfinished-older-than", help=f"{AGE}; texts of runs that never ended.")
    ] = None,
    runs_: Annotated[
        str | None, typer.Option("--runs-older-than", help=f"{AGE}; synthetic rows and student as well.")
    ] = None,
    private: Annotated[str | None, typer.Option("--private-older-than", help=f"{AGE}; caches of real rows.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove; without it only say what would go.")] = False,
    json_: Json = False,
) -> None:
    """Say what the state folder holds and what the rules would remove; --yes removes it.

    Releases, the budget book, its key, manifests, summaries and reports always stay.
    """
    from flows.cli import clean_command
    from flows.cli.clean_text import cleaned

    rules = {
        "embeddings_older_than": embeddings,
        "completions_older_than": completions,
        "samples_older_than": samples,
        "unfinished_older_than": unfinished,
        "runs_older_than": runs_,
        "private_older_than": private,
    }
    _answer(clean_command.clean(clean_command.rules_of(rules), yes), json_, cleaned)


@app.command()
def doctor(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Ask each of its PLMs for one text.")] = None,
    set_: Changes = None,
    json_: Json = False,
    flow: Annotated[str, typer.Option(help="The flow that the configuration is of.")] = "wasp",
    party_: Annotated[
        Path | None, typer.Option("--party", help="The file of a party (party.yaml): look at it.")
    ] = None,
) -> None:
    """Check this machine: packages, state folder, budget book, encoder, tracking; --config: what its run needs."""
    if party_ is not None:
        found = look_at(party_)
    else:
        from flows.cli import commands

        found = commands.doctor(config, set_ or [], flow)
    from flows.engine import text

    _answer(found, json_, text.doctor)
    if not found["healthy"]:
        raise SystemExit(1 if found["ready"] else ConfigError.exit_code)


@app.command()
def serve(
    limit: Annotated[int, typer.Option(min=1, help="Most runs at the same time.")] = 4,
) -> None:
    """Carry out runs that are started in the UI of a Prefect server, all flows in this one process."""
    from importlib.metadata import entry_points

    # Deployments import flows, so the command finds them by entry point.
    (command,) = entry_points(group="wasp.commands", name="serve")
    command.load()(limit)


if __name__ == "__main__":
    main()
