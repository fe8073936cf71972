"""The command `wasp reproduce`: the tables and figures of a paper, with a verdict on each claim."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.interfaces.counts import counted, duration
from connectors.interfaces.errors import ConfigError, WaspError
from connectors.interfaces.json_values import Json
from connectors.interfaces.money import format_dollars
from flows.cli.common import Output
from flows.cli.start import run_flow
from flows.runtime.state_folder import check_room, state_folder

if TYPE_CHECKING:
    from flows.compare.config import CompareConfig
    from flows.reproduce.catalogue import Catalogue, Paper
    from flows.reproduce.cell_tables import Cells
    from flows.reproduce.run import ReproductionRun

Numbers = list[str] | None


def reproduce(  # noqa: PLR0913 - the options of the command
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER",
            help="wasp, dp_kps, kd_tutor, or the path of your own: ./mine.yaml. Default: list.",
        ),
    ] = None,
    table: Annotated[
        Numbers, typer.Option("--table", help="Number of a table. Repeatable. Default: all.")
    ] = None,
    figure: Annotated[
        Numbers, typer.Option("--figure", help="Number of a figure. Repeatable. Default: all.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Reduced sizes and one seed: a first page within minutes."),
    ] = False,
    published: Annotated[
        bool,
        typer.Option(
            "--published", help="The published sizes and models, which need an accelerator or keys."
        ),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show problems, missing data, cells and cost.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Agree to the licences of missing data and to the cost of paid models; for scripts.",
        ),
    ] = False,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Folder or address with copies of the data, as in wasp data."),
    ] = None,
    coverage: Annotated[
        Path | None,
        typer.Option(
            "--coverage",
            help="Folder of coverage.md and the cells of all papers: write them from stored cells and its own. With "
            "PAPER: first run the cells that neither has; with --plan only show those.",
        ),
    ] = None,
) -> Output:
    """Reproduce the tables and figures of a paper; exit code 0 only if every claim was judged."""
    of_run = {
        "--table": table,
        "--figure": figure,
        "--quick": quick,
        "--published": published,
        "--plan": plan,
        "--yes": yes,
        "--from": from_,
    }
    _refuse_unused(paper, [name for name, value in of_run.items() if value], coverage)
    # Prefect, which the comparisons import, needs it.
    home = state_folder()
    from flows.reproduce.catalogue import read_catalogue, read_paper
    from flows.reproduce.run import ReproductionRun, Request
    from flows.runtime.stores import open_artifacts
    from flows.runtime.terminal_progress import display

    # Before cells run for hours, whose page the folder is to receive.
    filed = {} if coverage is None else _filed_cells(paper, coverage, is_read_only=plan)
    if coverage is not None and paper is None:
        return _write_coverage(read_catalogue(), coverage)
    if paper is None:
        return Output(_listing(read_catalogue().papers), _list_text)
    name, chosen = read_paper(paper)
    items = tuple(chosen.select(table or [], figure or []))
    if published and not any(item.published for item in items):
        raise ConfigError(
            f"--published: {', '.join(item.name for item in items)}: no comparison has the published sizes. Remove "
            "--published"
        )
    continued = "" if coverage is None else f" --coverage {shlex.quote(str(coverage))}"
    request = Request(
        name=name,
        paper=chosen,
        items=items,
        is_quick=quick,
        is_published=published,
        command=_command(paper, {"table": table, "figure": figure}, quick, published) + continued,
    )
    artifacts = open_artifacts(home)
    run = ReproductionRun(request, artifacts, filed)
    if plan:
        return _plan(run)
    check_room(home)
    _obtain_missing(run, from_, yes)
    # Again: the keys of its cells contain sizes and times of files, and another process may have prepared them since.
    run = ReproductionRun(request, artifacts, filed)
    if published:
        _require_consent_to_cost(run, yes)
    run.check()
    run.run(_run_comparison)
    if coverage is not None:
        display().say(_coverage_text(_write_coverage(read_catalogue(), coverage)))
    return _result(run)


def _refuse_unused(paper: str | None, options: list[str], coverage: Path | None) -> None:
    """Raise ConfigError for options of a run that nothing would read."""
    unfit = [name for name in options if name in {"--quick", "--published"}]
    if coverage is not None and unfit:
        raise ConfigError(
            f"--coverage: its page has the comparisons for a few cores with all seeds. Remove {', '.join(unfit)}"
        )
    if options and paper is None:
        raise ConfigError(
            f"PAPER: missing, and {options[0]} is of one paper. Write wasp, dp_kps, kd_tutor, or a path: ./mine.yaml"
        )


def _filed_cells(paper: str | None, folder: Path, is_read_only: bool) -> Cells:
    """Return the cells of a folder that a run of a paper continues.

    Raises ConfigError for a folder that cannot receive the page.
    """
    from flows.reproduce.catalogue import read_catalogue
    from flows.reproduce.cell_tables import read_cells
    from flows.reproduce.coverage import cells_file

    papers = read_catalogue().papers
    if paper is not None and paper not in papers:
        raise ConfigError(f"--coverage: its page has no '{paper}'. Remove --coverage")
    files = {name: cells_file(folder, name) for name in papers}
    try:
        for file in files.values():
            if is_read_only:
                # Fails where a part of the path is a file.
                with suppress(FileNotFoundError):
                    file.stat()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--coverage: {folder} cannot be a folder ({error.strerror})") from error
    # Those of other papers too: the page, which has them all, is written last.
    cells = {name: read_cells(file) for name, file in files.items()}
    return cells.get(paper or "", {})


def _write_coverage(catalogue: Catalogue, folder: Path) -> Output:
    from flows.reproduce.coverage import write_coverage
    from flows.runtime.stores import open_artifacts

    value = write_coverage(catalogue, open_artifacts(state_folder()), folder)
    return Output(value, _coverage_text)


def _coverage_text(value: Json) -> str:
    lines = [f"coverage      {value['page']}"]
    lines += [f"cells         {path}: {number}" for path, number in value["cells"].items()]
    return "\n".join([*lines, *[f"left out      {line}" for line in value["left_out"]]])


def _run_comparison(config: CompareConfig) -> Json:
    return run_flow("compare", config)


def _command(paper: str, numbers: dict[str, Numbers], quick: bool, published: bool) -> str:
    """Return the command that makes the same page again."""
    parts = ["wasp", "reproduce", paper]
    for kind, chosen in numbers.items():
        for number in chosen or []:
            parts += [f"--{kind}", number]
    if published:
        parts.append("--published")
    if quick:
        parts.append("--quick")
    return shlex.join(parts)


# --- data
def _obtain_missing(run: ReproductionRun, mirror: str | None, accepted: bool) -> None:
    """Fetch and prepare missing data after one question.

    A set that cannot be had is shown; the comparisons that need it are refused later, each with its reason.
    """
    from flows.data.obtain import DataFolder
    from flows.data.recipes import read_recipe
    from flows.reproduce.data_files import missing_sets
    from flows.runtime.terminal_progress import display

    missing = missing_sets(run.needed_files)
    if not missing:
        return
    _require_agreement(list(missing), accepted)
    for name, folder in missing:
        try:
            # The user has agreed to all of them at once.
            DataFolder(folder, mirror).obtain(name, read_recipe(name), lambda _: True)
        except WaspError as error:
            display().say(f"warning: {name}: {error}")
        else:
            display().say(f"{name}: prepared in {folder}")


def _require_agreement(sets: list[tuple[str, Path]], accepted: bool) -> None:
    from flows.data.obtain import confirm_on_terminal, describe
    from flows.data.recipes import read_recipe

    names = ", ".join(name for name, _ in sets)
    descriptions = [describe(name, read_recipe(name), folder) for name, folder in sets]
    decision = confirm_on_terminal("\n\n".join(descriptions), accepted)
    if decision is None:
        raise ConfigError(
            f"Missing data: {names}. Their licences need your agreement, and there is no terminal. Read them above, "
            "then add --yes to the command"
        )
    if not decision:
        raise ConfigError(
            f"Missing data: {names}. You did not agree to their licences. Nothing was fetched"
        )


def _require_consent_to_cost(run: ReproductionRun, accepted: bool) -> None:
    """Raise ConfigError unless paid models of the open cells may be called, at their estimated cost."""
    dollars = sum(run.planned(matrix)["dollars_about"] for matrix in run.matrices)
    if not dollars or accepted:
        return
    cost = f"Paid models cost about {format_dollars(dollars)} dollars"
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{cost}, and there is no terminal. See --plan, then add --yes to the command"
        )
    if not typer.confirm(f"{cost}. Start?", default=False, err=True):
        raise ConfigError(f"{cost}. You did not agree. Nothing was called")


# --- plan
def _plan(run: ReproductionRun) -> Output:
    from flows.reproduce.data_files import missing_sets

    comparisons = []
    problems = []
    for matrix in run.matrices:
        value = run.planned(matrix)
        problems += [f"{matrix.name}: {problem}" for problem in value["problems"]]
        names = (
            "title",
            "cells",
            "open",
            "failing",
            "dollars_about",
            "minutes_of_writing",
            "needs",
            "unchecked",
        )
        comparisons.append({"name": matrix.name} | {name: value[name] for name in names})
    missing = sorted({name for name, _ in missing_sets(run.needed_files)})
    unmeasured = {item.name: item.reason for item in run.items() if item.reason}
    value = {
        "paper": run.request.name,
        "comparisons": comparisons,
        "missing": missing,
        "left_out": run.left_out,
        "unmeasured": unmeasured,
        "problems": problems,
    }
    return Output(value, _plan_text, ConfigError.exit_code if problems else 0, problems)


def _plan_text(value: Json) -> str:
    from flows.compare.text import needs_lines
    from tasks.reporting.terminal import table

    rows = [
        [
            entry["name"],
            entry["cells"],
            entry["open"],
            entry["failing"],
            format_dollars(entry["dollars_about"]),
            _minutes(entry["minutes_of_writing"]),
        ]
        for entry in value["comparisons"]
    ]
    comparisons = value["comparisons"]
    if len(comparisons) > 1:
        sums = [sum(entry[name] for entry in comparisons) for name in ("cells", "open", "failing")]
        dollars = format_dollars(sum(entry["dollars_about"] for entry in comparisons))
        minutes = [entry["minutes_of_writing"] for entry in comparisons]
        rows.append(["all", *sums, dollars, _minutes(None if None in minutes else sum(minutes))])
    heads = ("comparison", "cells", "to run", "with problems", "dollars", "generation")
    lines = []
    if value["missing"]:
        names = ", ".join(value["missing"])
        lines += [f"missing data  {names}: the command asks, and fetches them first", ""]
    lines.append(table(rows, heads))
    notes = [line for entry in comparisons for line in needs_lines(entry["needs"])]
    notes += [f"not checked   {line}" for entry in comparisons for line in entry["unchecked"]]
    unmeasured = [entry["name"] for entry in comparisons if entry["minutes_of_writing"] is None]
    if unmeasured:
        notes.append(
            f"generation    its models were never called; measure those without a price: wasp compare {unmeasured[0]} "
            "--plan --measure"
        )
    # Comparisons of one paper need the same models.
    lines += dict.fromkeys(notes)
    if any(entry["dollars_about"] or entry["minutes_of_writing"] != 0 for entry in comparisons):
        lines.append(
            "estimates     upper limits: cells of a seed with equal prompts share the answers, and each counts them"
        )
    lines += [f"left out      {line}" for line in value["left_out"]]
    lines += [f"not measured  {name}: {reason}" for name, reason in value["unmeasured"].items()]
    return "\n".join(lines)


def _minutes(minutes: float | None) -> str:
    if minutes is None:
        return "not measured"
    return duration(60 * minutes)


# --- results
def _listing(papers: dict[str, Paper]) -> Json:
    return {
        "papers": {
            name: {
                "title": paper.title,
                "citation": paper.citation,
                "items": {item.name: item.about for item in paper.items},
            }
            for name, paper in papers.items()
        }
    }


def _list_text(value: Json) -> str:
    lines = []
    for name, paper in value["papers"].items():
        lines.append(f"{name}: {paper['citation']}")
        lines += [f"  {item:<22} {about}" for item, about in paper["items"].items()]
    lines += ["", "Start with: wasp reproduce PAPER --quick"]
    return "\n".join(lines)


def _result(run: ReproductionRun) -> Output:
    from tasks.reporting.reproduction import verdict_counts

    result = run.result()
    judged = sum(claim.is_judged for claim in result.judgements)
    # Items that nothing measures are not reproduced.
    is_complete = bool(run.matrices) and judged == len(result.judgements) and result.is_finished
    value = {
        "paper": run.request.name,
        "state": _state(run, is_complete),
        "claims": len(result.judgements),
        "judged": judged,
        "verdicts": verdict_counts(result.judgements),
        "items": [
            {
                "name": item.name,
                "state": item.reason or item.state,
                "claims": [asdict(claim) for claim in item.judgements],
            }
            for item in result.items
        ],
        "problems": run.problems,
        "has_published": any(item.published for item in run.request.items),
        "page": run.page,
    }
    problems = [f"{name}: {problem}" for name, problem in run.problems.items()]
    return Output(value, _result_text, int(not is_complete), problems)


def _state(run: ReproductionRun, is_complete: bool) -> str:
    if not run.matrices:
        return "not measured"
    if is_complete:
        return "judged"
    return "incomplete"


def _result_text(value: Json) -> str:
    lines = [f"{item['name']:<14} {item['state']}" for item in value["items"]]
    lines.append("")
    lines.append(
        f"claims        {counted(value['claims'], 'claim')}, {value['judged']} judged: {value['verdicts']}"
    )
    if value["state"] == "not measured":
        advice = ""
        if value["has_published"]:
            advice = "; --published has comparisons with the published sizes"
        lines.append(
            f"not measured  no comparison of this machine measures it, hence exit code 1{advice}"
        )
    elif value["state"] != "judged":
        lines.append("incomplete    not every claim was judged, hence exit code 1")
    lines.append(f"page          {value['page']}")
    return "\n".join(lines)
