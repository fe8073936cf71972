"""Format the plan and results of a comparison for the terminal."""

from collections.abc import Sequence

from connectors.interfaces.counts import counted, duration, sized
from connectors.interfaces.json_values import Json
from connectors.interfaces.money import format_dollars
from tasks.accounting.guarantee import epsilon_text
from tasks.reporting.terminal import cap_text, table


def plan(value: Json) -> str:
    """Return problems, calls, cost, needs and budget of all open cells as text."""
    lines = [
        *_problems(value),
        f"comparison    {value['title']}",
        f"cells         {value['cells']}, {value['open']} to run, {value['workers']} at a time",
        f"calls         {value['calls']}",
        f"tokens        about {value['tokens_in']} in, {value['tokens_out']} out",
        f"money         about {format_dollars(value['dollars_about'])} dollars",
        f"time          {_time(value)}",
        *needs_lines(value["needs"]),
        *[f"not checked   {line}" for line in value["unchecked"]],
        *[f"budget        {_budget(dataset)}" for dataset in value["datasets"]],
    ]
    if not value["datasets"]:
        lines.append("budget        none: no open cell releases anything about private rows")
    heads = ("row", "column", "flow", "runs", "calls", "dollars", "epsilon of a run")
    return "\n".join([*lines, "", table(_plan_rows(value["matrix"]), heads)])


def summary(value: Json) -> str:
    """Return the tables of a finished comparison, and where they are stored, as text."""
    lines = [
        # Summaries of earlier versions have no tables.
        value.get("tables", ""),
        f"cells       {len(value['cells'])}: {value['reused']} reused, {value['failed']} failed; "
        f"{duration(value['seconds'])}",
        f"stored as   {value['table']} (also as table.md)",
    ]
    return "\n".join(lines)


def _problems(value: Json) -> list[str]:
    """Return the line about problems, which the command prints one by one before the plan."""
    if not value["problems"]:
        return []
    cells = f"{value['failing']} of {counted(value['open'], 'cell')} to run"
    return [f"problems      {len(value['problems'])}, in {cells}; listed on standard error"]


def _time(value: Json) -> str:
    """Return the time of generation as far as the speed of models is known, and how to learn the rest."""
    if value["minutes_of_writing"] is not None:
        return f"about {duration(60 * value['minutes_of_writing'])} of generation in total"
    unmeasured = f"never called: {', '.join(value['unmeasured'])}"
    advice = "Measure models without a price: wasp compare FILE --plan --measure"
    if value["minutes_measured"]:
        known = duration(60 * value["minutes_measured"])
        return (
            f"about {known} of generation in cells whose models were called; {unmeasured}. {advice}"
        )
    return f"unknown; {unmeasured}. {advice}"


def needs_lines(needs: Json) -> list[str]:
    """Return the lines about downloads and memory; none if no model needs them."""
    lines = []
    downloads = needs.get("downloads")
    if downloads:
        gated = ""
        if downloads["gated"]:
            gated = f"; gated, with access: {', '.join(downloads['gated'])}"
        lines.append(
            f"downloads     {counted(downloads['models'], 'model')} of the hub, {sized(downloads['bytes'])}; "
            f"{sized(downloads['free'])} free in {downloads['folder']}{gated}"
        )
    memory = needs.get("memory")
    if memory:
        lines.append(
            f"memory        at most {sized(memory['bytes'])} of weights at a time (largest model: {memory['model']}), "
            f"and the batches; device {memory['device']} has {sized(memory['available'])}"
        )
    return lines


def _budget(dataset: Json) -> str:
    """Return runs, releases and total epsilon of a dataset; runs without noise are counted apart."""
    kind = "private rows"
    total = "with total epsilon"
    if dataset["registries"]:
        kind = f"ledgers of the parties of {counted(dataset['registries'], 'folder')}"
        total = "with total epsilon of at most"
    elif dataset["public"]:
        kind = "rows declared public"
    noised = dataset["runs"] - dataset["unnoised"]
    parts = []
    if noised:
        epsilon = epsilon_text(dataset["epsilon"])
        parts.append(f"{counted(noised, 'run')} {total} {epsilon} at delta {dataset['delta']:g}")
    if dataset["unnoised"]:
        parts.append(f"{counted(dataset['unnoised'], 'run')} without noise (NOT PRIVATE)")
    return (
        f"dataset '{dataset['dataset']}' ({kind}): {', '.join(parts)}; {counted(dataset['releases'], 'release')}, "
        f"every cell is charged{cap_text(dataset, 'cells will be refused')}"
    )


def _plan_rows(matrix: Sequence[Json]) -> list[Sequence[object]]:
    """Return a line for each row and column, with the sums of its seeds."""
    cells: dict[tuple[str, str], list[Json]] = {}
    for cell in matrix:
        cells.setdefault((cell["row"], cell["column"]), []).append(cell)
    return [_plan_row(row, column, runs) for (row, column), runs in cells.items()]


def _plan_row(row: str, column: str, runs: Sequence[Json]) -> Sequence[object]:
    spent = {
        epsilon_text(run["epsilon_exact"]) if run["releases"] else "none": None for run in runs
    }
    calls = sum(run["calls"] for run in runs)
    dollars = format_dollars(sum(run["dollars_about"] for run in runs))
    return [row, column, runs[0]["flow"], len(runs), calls, dollars, ", ".join(spent)]
