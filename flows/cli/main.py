"""Define the `wasp` command line.

With --json the last line on standard output is one JSON object.
"""

import errno
import gc
import json
import os
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated

import typer

from connectors.interfaces.errors import ProblemsError, WaspError
from connectors.interfaces.redaction import redact
from flows.cli import parties, start, stored_runs
from flows.cli.budget import budget
from flows.cli.clean import clean
from flows.cli.common import Commands, Output, command, print_problems
from flows.cli.data import data
from flows.cli.dataset import dataset
from flows.cli.reproduce import reproduce
from flows.runtime.interruption import interruptible_command
from flows.runtime.library_output import hide_at_exit
from flows.runtime.state_folder import prepare_environment
from flows.runtime.temporary_server import COLLECTED_AFTER

ADVICE = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM), "Check who owns it and its permissions, or use another one"
    ),
    errno.EROFS: "Use a folder on another disk",
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Free space, or use a folder on another disk"
    ),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), "Check the path"),
    errno.ENAMETOOLONG: "Use a shorter name",
    errno.EMFILE: "Raise the limit of open files: ulimit -n 4096",
    **dict.fromkeys((errno.EIO, errno.ESTALE), "Check the disk or the network drive"),
}
"""Advice for errors of files that a user can act on, by number. Others are mistakes of this program."""

app = typer.Typer(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Turn a few hundred private texts into a shareable synthetic training set under differential privacy.",
)
PANELS: dict[str, tuple[Callable[..., Output], ...]] = {
    "Start": (
        *(start.demo, start.init, start.doctor, start.advise, start.plan, start.preview),
        *(start.run, start.compare, start.audit, data, reproduce),
    ),
    "Results": (
        *(
            stored_runs.runs,
            stored_runs.show,
            stored_runs.report,
            stored_runs.predict,
            stored_runs.export,
        ),
        *(stored_runs.verify_bundle, start.resume, stored_runs.abandon, stored_runs.push),
    ),
    "Several parties": (parties.partition,),
    "Operation": (clean,),
}
"""Commands by their title in the help."""
for panel, functions in PANELS.items():
    for function in functions:
        command(app, panel=panel)(function)
app.command(rich_help_panel="Start")(start.schema)
app.command(rich_help_panel="Several parties")(parties.party)
app.add_typer(budget, name="budget", rich_help_panel="Privacy")
app.add_typer(dataset, name="dataset", rich_help_panel="Privacy")


def _print_version(requested: bool) -> None:
    if requested:
        print(f"wasp {metadata.version('wasp-synth')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: ARG001  (its callback prints it)
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Show warnings and results only.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show Prefect's log too.")
    ] = False,
) -> None:
    """Prepare the environment, and set what all commands show; called before each of them."""
    prepare_environment()
    if quiet:
        os.environ["WASP_QUIET"] = "1"
    if verbose:  # Prefect reads it on its first import
        os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "INFO"


def main() -> None:
    """Run the command; print a WaspError as a message and exit with its code."""
    gc.set_threshold(*COLLECTED_AFTER)
    with interruptible_command():
        try:
            app()
        except WaspError as error:
            _fail(error)
        # Without advice it is a mistake of this program, whose traceback is needed.
        except OSError as error:
            advice = ADVICE.get(error.errno or 0)
            if advice is None:
                raise
            path = "A file or folder"
            if error.filename is not None:
                path = error.filename
            _fail(WaspError(f"{path}: {os.strerror(error.errno or 0).lower()}. {advice}"))
        finally:
            hide_at_exit()


def _fail(error: WaspError) -> None:
    # From the arguments, because the error may come before they are parsed.
    if "--json" in sys.argv:
        print(
            json.dumps(
                {"state": "refused", "error": type(error).__name__, "message": redact(str(error))}
            )
        )
    problems = [str(error)]
    # Each problem of a configuration gets its own line.
    if isinstance(error, ProblemsError):
        problems = str(error).splitlines()
    print_problems(problems)
    raise SystemExit(error.exit_code)


if __name__ == "__main__":
    main()
