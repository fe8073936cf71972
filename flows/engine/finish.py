"""Finishes a run: returns unspent budget, writes report and summary, logs to MLflow, closes the manifest."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pandas as pd
import pyarrow.parquet as pq
from prefect.states import Completed

from connectors.artifacts.store import Artifacts
from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ConfigError
from connectors.tracking.address import redact
from flows.catalog import find_method
from flows.engine.audit_findings import audits_of_releases, describe_audits
from flows.engine.parties import actual_parties
from flows.engine.run import Run, RunResults
from flows.engine.run_page import result_line, show_result
from flows.engine.summary import elapsed, outgoing, summary
from flows.engine.tracking import page_url, serving
from flows.engine.usefulness import usefulness
from flows.runtime.locations import located
from flows.runtime.manifest import Approval, now, versions
from flows.runtime.stores import tracking_store
from flows.runtime.terminal_progress import display
from tasks.accounting.guarantee import finite
from tasks.evaluation.map_points import MapPoints, map_points
from tasks.metrics.answer_counts import AnswerCounts, count_answers, describe_problems
from tasks.private.parties.coordinator import end_run
from tasks.private.release import audits_of
from tasks.reporting.plots import balance_plot, confusion_plot, fid_accuracy_plot, weights_plot
from tasks.reporting.report import render
from tasks.reporting.run_record import ClassShare, RunRecord, Scores, Section, from_json, to_json
from tasks.reporting.terminal import next_steps
from tasks.reporting.text_map import map_plot
from tasks.steps.values import TextTable
from tasks.writing.texts import read_samples

PLOTS = {
    "fid_accuracy": fid_accuracy_plot,
    "weights": weights_plot,
    "map": map_plot,
    "confusion": confusion_plot,
}
PLOTS |= {"balance": balance_plot}
CLASS_SCORES = "class_scores.csv"


def finish_run(run: Run, results: RunResults) -> dict[str, Any]:
    """Finish a run; all files are complete before the manifest state becomes 'done'.

    Returns the flow's state with the result as its message and the summary as its data.
    """
    name = run.tools.run_name
    if name.dataset:
        run.tools.ledger.finish(name.dataset, name.run_id)
    if run.prepared.federation is not None:
        end_run(run.tools.exchange, name.run_id)
    report = _report(run, results)
    draft = summary(run, report, "")
    report = replace(report, next=tuple(next_steps(draft)))
    unchanged = _unchanged(run, report)
    if unchanged is not None:
        report = unchanged
        run.tools.tracker.end("FINISHED")
    else:
        run.tools.artifacts.write_text(
            f"runs/{name.run_id}/report.json", json.dumps(to_json(report))
        )
        with display().waiting("writing the report"):
            write_report(run.tools.artifacts, name.run_id)
        with display().waiting("sending the results to MLflow"):
            _track(run, report, results.synthetic, result_line(draft))
    finished_summary = summary(run, report, _mlflow(run))
    values = finished_summary.to_json()
    run.tools.artifacts.write_text(
        f"runs/{name.run_id}/summary.json", json.dumps(values, indent=2, allow_nan=False)
    )
    show_result(values, run.tools.tracker.ui_link())
    ended = {"state": "done", "ended": now(), "not_private": report.not_private}
    run.manifest.update(
        **ended, **run.money, mlflow_run_id=finished_summary.mlflow_run_id, error=None
    )
    # A flow call returns the data of the final state, which is the summary.
    state = "Degraded" if report.degraded else "Completed"
    return cast(
        "dict[str, Any]", Completed(name=state, message=result_line(finished_summary), data=values)
    )


def write_report(artifacts: Artifacts, run_id: str) -> Path:
    """Render report.html from report.json; return its local path."""
    stored = artifacts.read_text(f"runs/{run_id}/report.json")
    if stored is None:
        raise ConfigError(f"Run {run_id} has no report yet. Resume with: wasp resume {run_id}")
    report = from_json(json.loads(stored))
    path = f"runs/{run_id}/synthetic.parquet"
    report = replace(report, places=located(artifacts, run_id, report.places))
    page = render(report, None if report.not_private else _browsed(artifacts, path))
    return artifacts.write_text(f"runs/{run_id}/report.html", page)


def _browsed(artifacts: Artifacts, path: str) -> pd.DataFrame | None:
    """Return all synthetic texts; None if the run has none or `wasp clean` removed them."""
    if not artifacts.exists(path):
        return None
    table: pd.DataFrame = pq.read_table(
        artifacts.fetch(path), columns=["text", "label", "plm", "iteration"]
    ).to_pandas()
    return table


def _unchanged(run: Run, report: RunRecord) -> RunRecord | None:
    """Return the stored report of a run that finished before, if only duration and budget differ; else None.

    Its page, pictures and records in the same MLflow run are then complete.
    """
    artifacts = run.tools.artifacts
    folder = f"runs/{report.run_id}"
    tracker = run.tools.tracker
    texts = [artifacts.read_text(f"{folder}/{name}.json") for name in ("report", "summary")]
    if not run.manifest.was_done or not all(texts) or not artifacts.exists(f"{folder}/report.html"):
        return None
    earlier, finished = (json.loads(text or "{}") for text in texts)
    is_tracked = (
        tracker.has_results and not tracker.problem and not finished.get("tracking_problem")
    )
    if not is_tracked or finished["mlflow_run_id"] != tracker.mlflow_run_id:
        return None
    moving = {name: earlier[name] for name in ("seconds", "budget") if name in earlier}
    is_unchanged = json.loads(json.dumps(to_json(report))) | moving == earlier
    return replace(report, **moving) if is_unchanged else None


def _report(run: Run, results: RunResults) -> RunRecord:
    name = run.tools.run_name
    config = run.config
    folder = f"runs/{name.run_id}"
    where = run.tools.artifacts.where
    scores = _scores(results.student["test"], run.prepared.card.label_names)
    parties = run.manifest.values["plan"]["parties"]
    answers = _answers(run, results)
    return RunRecord(
        run_id=name.run_id,
        flow=name.flow,
        task=run.prepared.card.name,
        state="done",
        seconds=elapsed(run),
        **_planned(run),
        **_spending(run, results),
        iterations=tuple(run.facts_so_far),
        degraded=(*_degraded(run, results), *describe_problems(answers)),
        warnings=(
            *run.prepared.warnings,
            *(run.discriminator.warnings if run.discriminator else ()),
        ),
        scores=scores,
        outgoing=outgoing(run),
        map=_map(run, results),
        places={
            **({"synthetic texts": where(results.synthetic.path)} if results.synthetic else {}),
            "all artifacts": where(folder),
            **(
                {"student": where(results.folder or f"{folder}/student")}
                if run.prepared.card.has_classes
                else {}
            ),
            "MLflow": _mlflow(run),
        },
        versions=versions(),
        approval=str(Approval(**approval)) if (approval := run.manifest.values["approval"]) else "",
        opens_rows=config.uses_private_rows,
        parties=actual_parties(parties, map(run.tools.artifacts.info, run.releases))
        if parties
        else None,
        balance=_balance(run, results.written),
        usefulness=usefulness(run, results),
        sections=(
            *find_method(run.config.flow_name).sections(run),
            *((Section("Discriminator", run.discriminator.sentence),) if run.discriminator else ()),
        ),
        discriminator=run.discriminator,
        audited=describe_audits(
            *audits_of_releases(run.tools.artifacts, audits_of(run.prepared.guarantee))
        ),
        budget=_budget(run),
        stubs=tuple(model.name for model in run.config.models if model.is_stub),
        answers=answers,
    )


def _answers(run: Run, results: RunResults) -> dict[str, AnswerCounts]:
    """Return how the answers of each language model were used; empty for a run that writes no texts."""
    if results.synthetic is None:
        return {}
    return count_answers(run.facts_so_far, run.tools.artifacts.read_table(results.synthetic))


def _budget(run: Run) -> dict[str, Any] | None:
    """Return what the dataset has spent of its cap now; None without private records or cap."""
    dataset = run.tools.run_name.dataset
    status = run.tools.ledger.status(dataset) if dataset else None
    if (
        status is None
        or status.cap is None
        or not math.isfinite(status.cap)
        or run.prepared.guarantee.non_private
    ):
        return None
    values = {"cap": status.cap, "delta": status.delta or 0.0, "spent": status.spent}
    return {"dataset": run.dataset} | {name: round(value, 9) for name, value in values.items()}


def _map(run: Run, results: RunResults) -> MapPoints | None:
    if not results.written:
        return None
    config = run.config
    shown = run.prepared.few_shot
    return map_points(run.tools, results.written, (run.prepared.test, shown), config.execution.seed)


def _mlflow(run: Run) -> str:
    """Return the URL of the MLflow run, or the command that opens its database."""
    tracker = run.tools.tracker
    if tracker.ui_link():
        return str(tracker.ui_link())
    if tracker.mlflow_run_id is None:
        return f"not tracked: {tracker.problem or 'nothing was logged'}"
    uri, _ = tracking_store(run.config.tracking.mlflow, run.tools.home)
    return f"run {tracker.mlflow_run_id}; show it with: mlflow server --backend-store-uri {shlex.quote(redact(uri))}"


def _planned(run: Run) -> dict[str, Any]:
    guarantee = run.prepared.guarantee
    config = run.config
    noise = guarantee.shown_noise
    released = tuple(release.outcome() for release in run.prepared.guarantee.releases)
    return {
        "epsilon": guarantee.promise.epsilon,
        "epsilon_exact": guarantee.epsilon_exact,
        "delta": guarantee.promise.delta,
        "sigma": noise["sigma"],
        "sensitivity": noise["sensitivity"],
        "calibration": noise["calibration"],
        "protects": guarantee.promise.protects,
        "adjacency": guarantee.promise.adjacency,
        "released": released,
        "touched": tuple(exposed for outcome in released for exposed in outcome.unnoised),
        "public_rows": config.private.public_rows if config.private else "",
    }


def _spending(run: Run, results: RunResults) -> dict[str, Any]:
    entries = run.spent()
    own = [entry for entry in entries if entry.run_id == run.tools.run_id]
    return {
        "epsilon_spent": finite(run.loss(entries)),
        "epsilon_added": finite(run.loss(own)),
        "releases": len(entries),
        "releases_charged": len(own),
        "n_synthetic": results.synthetic.rows if results.synthetic else 0,
        "charges": tuple(entry.charge for entry in entries),
    }


def _degraded(run: Run, results: RunResults) -> tuple[str, ...]:
    """Return missing texts, models and steps; a warning alone does not make a run degraded."""
    missing = run.config.method.samples - results.synthetic.rows if results.synthetic else 0
    short = (f"{missing} texts are missing: {run.why_missing}",) if missing > 0 else ()
    down = tuple(
        f"{plm} was down in iteration {facts.iteration}: {why}"
        for facts in run.facts_so_far
        for plm, why in facts.down.items()
    )
    tuning = run.config.method.tuning
    lost = sum(int(run.tools.artifacts.info(release).get("lost", 0)) for release in run.releases)
    if tuning is None or not lost:
        return short + down
    reason = "training steps were lost in a crash: they are charged and not repeated"
    return (*short, *down, f"{lost} of {tuning.steps} {reason}")


def _scores(test: dict[str, Any] | None, classes: tuple[str, ...]) -> Scores | None:
    if test is None:
        return None
    if "words" in test:
        return Scores(accuracy=test["accuracy"], macro_f1=None, next_word_loss=test["loss"])
    return Scores(
        accuracy=test["accuracy"],
        macro_f1=test["macro_f1"],
        classes=classes,
        per_class={name: test["per_class"][name] for name in classes},
        confusion=tuple(tuple(row) for row in test["confusion"]),
    )


def _balance(run: Run, written: Sequence[TextTable]) -> tuple[ClassShare, ...]:
    """Return each class's share: noisy count, result and test rows; empty without noisy label counts."""
    if not run.shares or not run.shares_are_noisy:
        return ()
    texts = read_samples(run.tools, written)["label"].value_counts(normalize=True)
    test = None
    if run.prepared.test is not None:
        test = run.tools.read_rows(run.prepared.test.where)["label"].value_counts(normalize=True)
    named = zip(run.prepared.card.label_names, run.shares, strict=True)
    return tuple(
        ClassShare(
            name,
            share,
            float(texts.get(name, 0.0)),
            None if test is None else float(test.get(name, 0.0)),
        )
        for name, share in named
    )


def _track(run: Run, report: RunRecord, synthetic: ArtifactRef | None, note: str) -> None:
    """Describe the results for MLflow; a run without noise keeps its texts."""
    scores = report.scores
    url = page_url()
    final = {
        "privacy/epsilon_total": report.epsilon_spent,
        "privacy/epsilon_added": report.epsilon_added,
    }
    if scores:
        final |= {"student/macro_f1": scores.macro_f1}
        final |= {f"student/{name}": score for name, score in scores.weighted.items()}
    final |= report.usefulness.metrics() if report.usefulness else {}
    final |= (
        {"discriminator/accuracy": report.discriminator.student.value}
        if report.discriminator
        else {}
    )
    results: dict[str, Any] = {
        "note": f"{note}\n\nShow it: `wasp show {report.run_id}`",
        "link": f"[Run in Prefect]({url})" if url else "",
    }
    results["tags"] = {"wasp.degraded": "; ".join(report.degraded) or "no"}
    results["datasets"] = (
        {Path(run.prepared.test.where.path).stem: "test"} if run.prepared.test else {}
    )
    results["datasets"] |= (
        {run.tools.private.name: "private"} if run.config.private is not None else {}
    )
    files: list[str] = []
    if scores and scores.per_class:
        table = (
            pd.DataFrame(dict(scores.per_class))
            .T.astype({"rows": int})
            .round(4)
            .to_csv(index_label="class")
        )
        run.tools.artifacts.write_text(f"runs/{report.run_id}/{CLASS_SCORES}", table)
        files.append(CLASS_SCORES)
    if synthetic is not None:
        run.tools.artifacts.fetch(synthetic.path)
        table = PurePosixPath(synthetic.path).name
        results["synthetic"] = {
            "path": table,
            "name": f"{report.task}-synthetic",
            "sha256": synthetic.sha256,
        }
        files += [] if run.prepared.guarantee.non_private else [table]
        files += [*_write_pictures(run, report), "report.html"]
        if run.prepared.card.has_classes:
            run.tools.artifacts.fetch(f"runs/{report.run_id}/student")
            results["model"] = serving(run.config)
    results["files"] = {f"plots/{file}" if file.endswith(".png") else file: file for file in files}
    run.tools.tracker.metrics(final, run.iterations, status="FINISHED", **results)


def _write_pictures(run: Run, report: RunRecord) -> list[str]:
    """Draw the plots of a run; return their names."""
    pictures = {f"{name}.png": plot(report, "png") for name, plot in PLOTS.items()}
    drawn = {name: picture for name, picture in pictures.items() if picture is not None}
    for name, picture in drawn.items():
        run.tools.artifacts.write_bytes(f"runs/{report.run_id}/{name}", picture)
    return list(drawn)
