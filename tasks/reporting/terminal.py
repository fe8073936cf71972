"""Terminal output of the command without --json: each function formats one JSON result as lines."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connectors.interfaces.counts import counted, duration
from connectors.interfaces.errors import default_cap_advice
from connectors.interfaces.json_values import Json
from connectors.interfaces.money import format_dollars, of_which_estimated
from tasks.accounting.guarantee import epsilon_text
from tasks.reporting.run_record import STUBS, RunRecord
from tasks.reporting.run_summary import RunSummary

MAX_UNUSABLE = 1 / 3
"""Part of previewed texts above which a line says that they cannot be used."""


def table(rows: Sequence[Sequence[object]], heads: Sequence[str]) -> str:
    """Return rows as aligned columns with headers; numbers are right-aligned."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [
        max([len(head), *(len(row[column]) for row in cells)]) for column, head in enumerate(heads)
    ]

    def line(row: Sequence[str]) -> str:
        padded = []
        for cell, width in zip(row, widths, strict=True):
            align = cell.rjust if _is_number(cell) else cell.ljust
            padded.append(align(width))
        return "  ".join(padded).rstrip()

    return "\n".join(
        [line(heads), line(["-" * width for width in widths]), *(line(row) for row in cells)]
    )


def number(value: float | None, digits: int = 4) -> str:
    """Return a number, or 'not measured'."""
    if value is None:
        return "not measured"
    return f"{value:.{digits}f}"


# Plans of `wasp plan` have more keys than those of a run that starts, and stored ones of earlier versions fewer.
def plan(value: Mapping[str, Any]) -> str:
    """Return the lines of a plan."""
    lines = [f"task          {value['task']}", "texts         none"]
    if value["models"]:
        lines = _writing(value)
    if value["approval"]:
        lines.append("approval      required before private data is opened")
    if value["export_approval"]:
        lines.append("export        requires the approval of a second person in Prefect")
    if value["public_rows"]:
        lines.append(f"private rows  {value['public_rows']}")
    warnings = [f"warning       {text}" for text in value.get("warnings", [])]
    return "\n".join([*lines, *value["lines"], *_embedding(value), *_budget(value), *warnings])


def _embedding(value: Mapping[str, Any]) -> list[str]:
    """Return the line about the private records that a release embeds, if they are many."""
    planned = value.get("embedding")
    if planned is None:
        return []
    records = planned["records"]
    part = ""
    if not planned["is_part"]:
        named = f"dataset: {planned['dataset']}, " if planned["dataset"] else ""
        part = f". To use a part, write private: {{{named}rows: {records // 10}, of: {records}}}"
    time = duration(60 * planned["minutes"])
    return [
        f"embed         {records} private records before the release, about {time} on this machine, measured with "
        f"made-up texts of 60 words{part}"
    ]


def cap_text(budget: Mapping[str, Any], refused: str) -> str:
    """Return what the cap of a dataset leaves if that is not enough, as a sentence that `refused` completes."""
    if not budget["refusal"]:
        return ""
    advice = ""
    if budget["default_cap"]:
        advice = default_cap_advice(budget["dataset"], " --declare")
    return f". The cap leaves epsilon {budget['left']:.4g}, so {refused}{advice}"


def _budget(value: Mapping[str, Any]) -> list[str]:
    """Return the line about the cap of the dataset; none if the plan charges nothing."""
    budget = value.get("budget")
    if budget is None:
        return []
    rest = "no cap"
    if budget["cap"] is not None:
        rest = f"{budget['left']:.4g} of {budget['cap']:.4g} left"
    adds = "infinite"
    if value["epsilon_exact"] is not None:
        adds = f"{value['epsilon_exact']:.4g}"
    refused = "the run will be refused"
    if budget["repeats"]:
        # The ledger charges an equal run once, so a full cap does not stop this one.
        refused = "only this run can start"
        adds = f"0 beyond what run {budget['repeats']} has reserved or released, if its records and models are the same"
    elif budget["repeatable"]:
        adds += ", or 0 if it repeats a run exactly"
    return [f"budget        {rest}; this run adds {adds}{cap_text(budget, refused)}"]


def _writing(value: Mapping[str, Any]) -> list[str]:
    lines = [f"task          {value['task']}, models {', '.join(value['models'])}"]
    if value.get("lists"):
        lines.append(f"prompts       beginnings of lists for {', '.join(value['lists'])}")
    limit = "no limit set"
    if value["max_dollars"] is not None:
        limit = f"hard stop at {format_dollars(value['max_dollars'])}"
    tokens = f"about {value['tokens_in']} in, {value['tokens_out']} out"
    dollars = format_dollars(value["dollars_about"])
    saved = []
    if sharing := value.get("shared_prompts"):
        saved.append(
            f"saved         about {sharing['tokens_in']} tokens in and {format_dollars(sharing['dollars'])} dollars: "
            f"up to {sharing['texts_per_prompt']} texts share a prompt"
        )
    return [
        *lines,
        f"texts         {value['samples']} in {value['iterations']} iterations",
        f"calls         {value['calls']} (plus at most three rounds for missing texts)",
        f"tokens        {tokens} ({_basis(value)})",
        f"time          {_minutes(value['minutes_of_writing'])}",
        f"money         about {dollars} dollars with equal shares, {limit}",
        *saved,
    ]


def _basis(value: Mapping[str, Any]) -> str:
    unknown = [name for name in value["models"] if name not in value["measured"]]
    if not unknown:
        return "measured"
    return f"not measured, longest completions assumed: {', '.join(unknown)}"


def _minutes(value: float | None) -> str:
    if value is None:
        return "not measured; measure it with: wasp preview"
    return f"about {duration(60 * value)} of generation, at the measured speed"


def summary(value: Json) -> str:
    """Return the text about a finished run: iterations, result, paths and next commands."""
    run = RunSummary.from_json(value)
    lines = []
    if run.iterations:
        lines += [iterations(run.iterations), ""]
    lines.append(f"{scores(run)}; {outcome(run)}; {duration(run.seconds)}")
    if run.stubs:
        lines.append(f"stubs       {STUBS.format(', '.join(run.stubs))}")
    lines += usefulness_lines(run)
    lines += [f"degraded    {problem}" for problem in run.problems]
    lines += [f"warning     {warning}" for warning in run.warnings]
    lines += budget_lines(run)
    if run.dollars:
        lines.append(f"cost        {_cost(run.dollars, run.dollars_estimated)}")
    if run.parties:
        lines += _rounds(run.parties)
    if run.removed:
        lines.append(f"removed     {run.removed}")
    lines += [
        "",
        f"artifacts   {run.folder}",
        f"report      {run.report}",
        f"MLflow      {run.mlflow}",
        "",
        f"next        {_next_lines(run)}",
    ]
    return "\n".join(lines)


def _next_lines(run: RunSummary) -> str:
    steps = next_steps(run, run.dataset, run.tracking_problem)
    return "\n            ".join(f"{step}   ({purpose})" for step, purpose in steps)


def _rounds(values: Mapping[str, Any]) -> list[str]:
    """Return lines about each round and its dropped parties."""
    lines = []
    for vote in values["rounds"]:
        number = f"{vote['parties']} in attempt {vote['attempt']}"
        # A release from the ledger has no parties; version 0.2 marks it instead.
        if not vote["parties"] or vote.get("read_back"):
            number = "reused from the ledger, no message to a party"
        lines.append(f"parties     iteration {vote['iteration']}: {number}")
        lines += [f"            without {party}: {why}" for party, why in vote["dropped"].items()]
    return lines


def outcome(run: RunSummary) -> str:
    """Return the number of texts and the privacy loss of a run."""
    unit = f" per {run.protects}" if run.protects else ""
    loss = f"privacy loss of the output: epsilon {epsilon_text(run.epsilon_spent)} at delta {run.delta:g}{unit}"
    if not run.iterations and run.epsilon_spent is not None:
        return f"trained on the private rows by DP-SGD; {loss}"
    if not run.iterations:
        return "trained on the private rows without noise; epsilon infinite (NOT PRIVATE)"
    if not run.dataset and not run.releases:
        return f"{run.n_synthetic} synthetic texts; no private data used, epsilon 0"
    return f"{run.n_synthetic} synthetic texts; {loss} in {counted(run.releases, 'release')}"


def budget_lines(run: RunSummary) -> list[str]:
    """Return the epsilon that a run added, and its charged and reused releases."""
    if not run.dataset:
        return []
    charged = run.releases_charged
    if charged is None:
        return ["budget      added: not recorded"]
    return [
        f"budget      added: epsilon {epsilon_text(run.epsilon_added)} (releases: {charged} charged, "
        f"{run.releases - charged} reused from earlier runs)"
    ]


def scores(run: RunSummary) -> str:
    """Return the scores of the student."""
    accuracy, macro_f1, loss = (
        run.metrics.get(name) for name in ("accuracy", "macro_f1", "next_word_loss")
    )
    if accuracy is None:
        return "student not measured (no test rows)"
    if loss is not None:
        return (
            f"next-word accuracy {number(accuracy)}, loss {number(loss)} nats per word on test rows"
        )
    return f"student accuracy {number(accuracy)}, macro F1 {number(macro_f1)} on test rows"


def next_steps(
    run: RunRecord | RunSummary, dataset: str | None, tracking_problem: str | None
) -> list[tuple[str, str]]:
    """Return the next commands after a finished run, each with its purpose."""
    steps = [(f"show {run.run_id}", "show the run's numbers and files")]
    is_useless = bool(run.usefulness_warnings)
    if is_useless and run.iterations:
        purpose = "read texts of each language model; other models (plms) may know the task better"
        steps.append((f"preview {run.flow} --config FILE", purpose))
    if is_useless and dataset:
        purpose = "compare more private rows or a larger privacy.epsilon, without spending budget"
        steps.append((f"plan {run.flow} --config FILE", purpose))
    if not is_useless and run.epsilon_spent is not None and run.iterations:
        steps.append(
            (f"export {run.run_id} FOLDER", "copy the files that may be shared into a folder")
        )
    if dataset:
        steps.append(
            (f"budget history {shlex.quote(dataset)}", "show all entries of the privacy ledger")
        )
    if tracking_problem:
        steps.append((f"push {run.run_id}", "send to MLflow what it lacks"))
    return [(f"wasp {step}", purpose) for step, purpose in steps]


def iterations(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of iterations; models share one cell, hence it fits a page."""
    # Summaries of earlier versions have the probe under the name of the student's accuracy.
    probe = [row.get("probe_accuracy", row.get("accuracy")) for row in rows]
    columns: dict[str, list[str]] = {"iteration": [str(row["iteration"]) for row in rows]}
    if any(row["fid"] is not None for row in rows):
        columns["FID"] = [number(row["fid"]) for row in rows]
    if any(value is not None for value in probe):
        columns["probe accuracy"] = [number(value) for value in probe]
    columns["epsilon so far"] = [epsilon_text(row["epsilon"]) for row in rows]
    columns["new texts (weight)"] = [", ".join(_new(row)) for row in rows]
    return table(list(zip(*columns.values(), strict=True)), list(columns))


def _new(row: Mapping[str, Any]) -> list[str]:
    weights = {plm: f" ({number(weight, 2)})" for plm, weight in row["weights"].items()}
    return [f"{plm} {new}{weights.get(plm, '')}" for plm, new in row["new"].items()]


def preview(value: Json) -> str:
    """Return the previewed texts and their cost."""
    lines = []
    for row in value["rows"]:
        marks = row.get("remarks", [])
        if row["reason"]:
            marks = [f"left out: {row['reason']}"]
        lines.append(
            f"{row['plm']:<14} {row['label']:<24} {row['text']}"
            + "".join(f"  [{mark}]" for mark in marks)
        )
    cost = _cost(value["dollars"], value.get("dollars_estimated", 0.0))
    cost = f"{value['calls']} calls, {value['tokens_out']} tokens out, {cost}"
    findings = list(value.get("findings", []))
    if requested := value.get("phrases"):
        used = value["phrases_used"]
        findings.append(
            f"{used} of {requested} phrases of the prompts occur in the texts ({used / requested:.1%})"
        )
    findings += value.get("limits", [])
    if unusable := unusable_texts(value):
        findings.append(unusable)
    return "\n".join([*lines, "", *findings, f"epsilon spent: 0; {cost}"])


def unusable_texts(value: Json) -> str:
    """Return how many previewed texts cannot be used; empty for a part that a run replaces."""
    unusable = sum(bool(row["reason"]) for row in value["rows"])
    if unusable <= MAX_UNUSABLE * len(value["rows"]):
        return ""
    return (
        f"{unusable} of {len(value['rows'])} texts cannot be used: read the reasons before you run"
    )


def _cost(dollars: float, estimated: float) -> str:
    return f"{dollars:.4f} dollars{of_which_estimated(estimated)}"


def runs(value: Json) -> str:
    """Return the table of runs."""
    rows = [
        [run["run_id"], _state(run), run["started"][:16].replace("T", " "), *_result(run)]
        for run in value["runs"]
    ]
    heads = [
        "run",
        "state",
        "started (UTC)",
        "epsilon added to budget",
        "epsilon of output",
        "accuracy",
    ]
    if not rows:
        return "no run"
    return table(rows, heads)


def _state(run: Json) -> str:
    return f"{run['state']}{', with warnings' if run.get('warnings') else ''}"


def _result(run: Json) -> list[str]:
    if run["n_synthetic"] is None:
        # No summary; the ledger has its spending so far.
        return ["-", "-", "-"]
    added = "not recorded"
    if run.get("releases_charged") is not None:
        added = epsilon_text(run["epsilon_added"])
    return [added, epsilon_text(run["epsilon_spent"]), number(run["accuracy"])]


def shown(value: Json, finished: Callable[[Json], str] = summary) -> str:
    """Return the text about one run; `finished` formats the summary of a finished run."""
    # One line for the files of all iterations and models: iteration=0/plm=a becomes iteration=*/plm=*.
    patterns = {
        re.sub(r"(\w+)=[^/]+", r"\1=*", path): step for path, step in value["files"].items()
    }
    files = []
    if patterns:
        rows = [[step, path] for path, step in patterns.items()]
        files.append(table(rows, ["step", "file"]))
    if value.get("summary"):
        return "\n\n".join([finished(value["summary"]), *files])
    lines = [f"run     {value['run_id']}", f"state   {value['state']}"]
    lines += [f"{name:<7} {value[name]}" for name in ("error", "removed") if value.get(name)]
    return "\n\n".join(["\n".join(lines), *files])


def predictions(value: Json) -> str:
    """Return one line per text: its label, and the next two classes, with their probabilities."""
    lines = []
    for row in value["probabilities"]:
        ranked = sorted(row.items(), key=lambda entry: -entry[1])
        lines.append(", ".join(f"{name} {100 * share:.0f} %" for name, share in ranked[:3]))
    return "\n".join(lines)


def doctor(value: Json) -> str:
    """Return the results of all checks."""
    return "\n".join(
        f"{'ok  ' if check['ok'] else 'FAIL'}  {check['what']:<16} {check['found']}"
        for check in value["checks"]
    )


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).replace("-", "", 1).isdigit()


def usefulness_lines(summary: RunSummary) -> list[str]:
    """Return all accuracies and chance, one per line."""
    useful = summary.usefulness
    if not useful:
        return []
    # Summaries of earlier versions have all accuracies in one line.
    lines = [
        *useful.get("lines", [useful["line"]]),
        f"chance {100 * useful['chance']:.1f} %",
        useful["basis"],
    ]
    heads = ["accuracy", *[""] * (len(lines) - 1)]
    shown = [f"{head:<12}{line}" for head, line in zip(heads, lines, strict=True)]
    return [*shown, *gain_lines(summary)]


def gain_lines(summary: RunSummary) -> list[str]:
    """Return one line: what private records gained over the best floor, and its cost. Earlier versions lack it."""
    gain = (summary.usefulness or {}).get("gain")
    if not gain:
        return []
    points = f"{gain['points']:+.1f} points ({gain['low']:+.1f} to {gain['high']:+.1f})"
    spent = "no noise was added"
    if summary.epsilon_spent is not None:
        spent = f"epsilon {summary.epsilon_spent:.4g} was spent"
    return [
        f"gain        private records: {points} over the best floor, {gain['floor_line']}: {gain['verdict']}; {spent}"
    ]
