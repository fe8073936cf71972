"""The end of a run: unspent budget goes back, the report is written, experiments are recorded, the book is closed."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from prefect.states import Completed

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import Charge
from connectors.tracking.address import redact
from flows.engine.approval import Approval
from flows.engine.federation import parties_happened
from flows.engine.run_page import result_line
from flows.engine.sent_prompts import outgoing
from flows.engine.summary import summary
from flows.engine.tracking import serving
from flows.engine.usefulness import advice, usefulness
from flows.releases.moments import moments_in_words, moments_remarks
from flows.releases.teachers import expected, parts_in_words, unnoised_parts
from flows.releases.teachers_run import balance_of
from flows.runtime.manifest import now, versions
from flows.runtime.stores import tracking_store
from tasks.accounting.density import GuidanceNoise, describe_density
from tasks.accounting.dp_sgd import describe_training
from tasks.accounting.keyphrase_budget import describe_keyphrases
from tasks.accounting.no_noise import finite
from tasks.core.refs import Written
from tasks.metrics.iteration_record import Facts
from tasks.metrics.usefulness import Usefulness
from tasks.reporting.plots import balance_plot, confusion_plot, fid_accuracy_plot, map_plot, weights_plot
from tasks.reporting.report import render
from tasks.reporting.report_model import Happened, MapPoints, Plan, Report, Sample, Scores, Touched, from_json, to_json
from tasks.steps.evaluation import map_points
from tasks.steps.federation.round_plans import end_run
from tasks.steps.texts import read_samples

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from flows.engine.run import Run

PLOTS = {"fid_accuracy": fid_accuracy_plot, "weights": weights_plot, "map": map_plot, "confusion": confusion_plot}
PLOTS |= {"balance": balance_plot}
SAMPLES_SHOWN = 2


@dataclass(frozen=True, slots=True)
class Made:
    """What a run made, in order; `synthetic` is None where nothing may be made of it."""

    facts: tuple[Facts, ...]
    written: tuple[Written, ...]
    asked: tuple[Written, ...]
    releases: tuple[ArtifactRef, ...]
    synthetic: ArtifactRef | None
    student: dict[str, Any]


def finish_run(run: Run, made: Made) -> dict[str, Any]:
    """Close a run; every file is written whole before the manifest says 'done'.

    Returns the flow's state, with the result as its message and the summary as its data.
    """
    name = run.tools.called
    if name.dataset:
        run.tools.ledger.finish(name.dataset, name.run_id)
    if run.prepared.federation is not None:
        end_run(run.tools.exchange, name.run_id)
    report = _unless_unchanged(run, _report(run, made))
    run.tools.artifacts.write_text(f"runs/{name.run_id}/report.json", json.dumps(to_json(report)))
    page = write_report(run.tools.artifacts, name.run_id)
    _track(run, report, made.synthetic, page)
    found = summary(run, report, _mlflow(run))
    run.tools.artifacts.write_text(f"runs/{name.run_id}/summary.json", json.dumps(found, indent=2, allow_nan=False))
    run.page.result(found, run.tools.tracker.ui_link())
    ended = {"state": "done", "ended": now(), "not_private": report.not_private}
    run.book.update(**ended, **run.money, mlflow_run_id=found["mlflow_run_id"], error=None)
    # Who calls the flow gets the data of its state: the summary.
    return cast("dict[str, Any]", Completed(message=result_line(found), data=found))


def write_report(artifacts: Artifacts, run_id: str) -> Path:
    """Render report.html from report.json; return its place on this machine."""
    stored = artifacts.read_text(f"runs/{run_id}/report.json")
    if stored is None:
        raise ConfigError(f"Run {run_id} has no report yet; type: wasp resume {run_id}")
    return artifacts.write_text(f"runs/{run_id}/report.html", render(from_json(json.loads(stored))))


def _unless_unchanged(run: Run, report: Report) -> Report:
    """Return the stored report if only its duration differs: a run that reuses everything changes no page."""
    stored = run.tools.artifacts.read_text(f"runs/{report.run_id}/report.json")
    if stored is None:
        return report
    earlier = json.loads(stored)
    seconds = {"seconds": earlier["seconds"]}
    is_unchanged = json.loads(json.dumps(to_json(report))) | seconds == earlier
    return replace(report, **seconds) if is_unchanged else report


def _report(run: Run, made: Made) -> Report:
    name, config = run.tools.called, run.config
    folder, where = f"runs/{name.run_id}", run.tools.artifacts.where
    scores = _scores(made.student["test"], run.prepared.card.label_names)
    useful = usefulness(run, scores, made.asked, made.releases, made.synthetic.rows if made.synthetic else None)
    return Report(
        run_id=name.run_id,
        flow=name.flow,
        task=run.prepared.card.name,
        state="done",
        seconds=round(time.monotonic() - run.started, 1),
        plan=_plan(run),
        happened=_happened(run, made),
        iterations=made.facts,
        degraded=_degraded(run, made),
        warnings=run.prepared.warnings,
        scores=scores,
        samples=_samples(run, made.written),
        touched=_touched(run) + run.touched,
        outgoing=outgoing(run, made.asked, made.facts),
        map=_map(run, made),
        places={
            **({"synthetic texts": where(made.synthetic.path)} if made.synthetic else {}),
            "all artifacts": where(folder),
            "student": where(run.student_folder),
            "MLflow": _mlflow(run),
        },
        next=_next(run, useful),
        versions=versions(),
        approval=_approval(run),
        opens_rows=config.opens_rows,
        parties=parties_happened(run, made.releases),
        balance=balance_of(run, made.written),
        usefulness=useful,
    )


def _map(run: Run, made: Made) -> MapPoints | None:
    if not made.written:
        return None
    config, shown = run.config, run.prepared.shown
    by_tsne = config.evaluation.map == "tsne"
    return map_points(run.tools, made.written, (run.prepared.test, shown), config.execution.seed, by_tsne)


def _next(run: Run, useful: Usefulness | None) -> tuple[tuple[str, str], ...]:
    name, found = run.tools.called, []
    if useful is not None and useful.warnings:
        commands = advice(name.flow, run.config.opens_rows, bool(run.config.models))
        found += [(f"wasp {command}", purpose) for command, purpose in commands]
    elif not run.prepared.noise.non_private:
        found.append((f"wasp export {name.run_id} FOLDER", "copy what may be shared into a folder"))
    if name.dataset:
        found.append((f"wasp budget history {shlex.quote(name.dataset)}", "see every entry of the budget book"))
    return tuple(found) or ((f"wasp show {name.run_id}", "see the run's numbers"),)


def _mlflow(run: Run) -> str:
    """Say where the MLflow run is: its page, or the command that shows the database."""
    tracker = run.tools.tracker
    if tracker.ui_link():
        return str(tracker.ui_link())
    if tracker.mlflow_run_id is None:
        return f"not tracked: {tracker.problem or 'nothing was sent'}"
    uri, _ = tracking_store(run.config.tracking.mlflow, run.tools.home)
    return f"run {tracker.mlflow_run_id}; to look at it: mlflow server --backend-store-uri {shlex.quote(redact(uri))}"


def _approval(run: Run) -> str:
    kept = run.book.values["approval"]
    return str(Approval(**kept)) if kept else ""


def _plan(run: Run) -> Plan:
    noise = run.prepared.noise
    return Plan(
        epsilon=noise.epsilon_stated,
        epsilon_exact=noise.epsilon_exact,
        delta=noise.delta,
        sigma=noise.sigma,
        sensitivity=noise.sensitivity,
        releases=len(noise.charges),
        calibration=noise.calibration,
        protects=noise.privacy.protects,
        adjacency=noise.privacy.adjacency,
        samples=expected(run.config),
        calls=sum(one.number for one in run.config.asks),
        training=describe_training(noise),
        keyphrases=describe_keyphrases(noise),
        moments=moments_in_words(noise),
        beside=parts_in_words(noise),
        density=describe_density(noise),
        public_rows=run.config.private.public_rows if run.config.private else "",
    )


def _happened(run: Run, made: Made) -> Happened:
    entries = run.spent(made.releases)
    charges = tuple(
        Charge(
            one.mechanism,
            one.event,
            one.sensitivity or 0.0,
            one.sensitivity_reason,
            one.noise_scale or 0.0,
            one.protects,
            one.adjacency,
        )
        for one in entries
    )
    own = [entry for entry in entries if entry.run_id == run.tools.run_id]
    rows = made.synthetic.rows if made.synthetic else 0
    loss, added = finite(run.loss(entries)), finite(run.loss(own))
    return Happened(loss, len(entries), rows, charges, added, len(own))


def _degraded(run: Run, made: Made) -> tuple[str, ...]:
    """Return which texts, models or steps the run did without; a warning alone degrades nothing."""
    missing = expected(run.config) - made.synthetic.rows if made.synthetic else 0
    short = (f"{missing} texts are missing: {run.why_missing}",) if missing > 0 else ()
    down = tuple(
        f"{plm} was down in iteration {facts.iteration}: {why}"
        for facts in made.facts
        for plm, why in facts.down.items()
    )
    return short + down + run.remarks(made.releases) + moments_remarks(made.student)


def _scores(test: dict[str, Any] | None, classes: tuple[str, ...]) -> Scores | None:
    if test is None:
        return None
    return Scores(
        accuracy=test["accuracy"],
        macro_f1=test["macro_f1"],
        classes=classes,
        per_class={name: test["per_class"][name] for name in classes},
        confusion=tuple(tuple(row) for row in test["confusion"]),
    )


def _samples(run: Run, written: Sequence[Written]) -> tuple[Sample, ...]:
    if not written:
        return ()
    last = max(one.iteration for one in written)
    rows = read_samples(run.tools, [one for one in written if one.iteration == last])
    shown = rows.groupby(["plm", "label"], sort=False).head(SAMPLES_SHOWN)
    columns = (shown[name].tolist() for name in ("plm", "label", "iteration", "text"))
    return tuple(Sample(*values) for values in zip(*columns, strict=True))


def _touched(run: Run) -> tuple[Touched, ...]:
    found = []
    if run.config.evaluation.fid_reference == "private":
        found.append(
            Touched("FID against the private rows", "iterations and measures.json", "evaluation.fid_reference: private")
        )
    if run.prepared.noise.non_private and run.config.method.tuning is not None:
        found.append(Touched("training of the model, without noise", "its weights and texts", "privacy.epsilon: inf"))
    elif run.prepared.noise.non_private and isinstance(run.prepared.noise, GuidanceNoise):
        found.append(Touched("density without noise", "guidance/release.parquet", "privacy.epsilon: inf"))
    elif run.prepared.noise.non_private and run.prepared.noise.releases and run.prepared.noise.sensitivity:
        found.append(Touched("votes without noise", "release.parquet of each iteration", "privacy.epsilon: inf"))
    return tuple(found) + unnoised_parts(run.prepared.noise)


def _track(run: Run, report: Report, synthetic: ArtifactRef | None, page: Path) -> None:
    tracker, artifacts = run.tools.tracker, run.tools.artifacts
    scores = report.scores
    final = {"epsilon_total": report.happened.epsilon, "epsilon_added": report.happened.added}
    if scores:
        final |= {"student_accuracy": scores.accuracy, "student_macro_f1": scores.macro_f1}
    if scores and synthetic is not None:
        final |= scores.by_class
    final |= report.usefulness.metrics() if report.usefulness else {}
    tracker.metrics(final, run.iterations)
    if run.config.private is not None:
        tracker.dataset(run.tools.private.name, "private")
    if run.prepared.test:
        tracker.dataset(Path(run.prepared.test.where.path).stem, "test")
    if synthetic is not None:
        tracker.synthetic(artifacts.fetch(synthetic.path), f"{report.task}-synthetic", synthetic.sha256)
        _track_pictures(run, report, page)
        tracker.model(artifacts.fetch(run.student_folder), serving(run.config))
    tracker.end("FINISHED")


def _track_pictures(run: Run, report: Report, page: Path) -> None:
    tracker, artifacts, folder = run.tools.tracker, run.tools.artifacts, f"runs/{report.run_id}"
    for name, plot in PLOTS.items():
        picture = plot(report, "png")
        if picture is not None:
            if name == "fid_accuracy":
                run.page.curves(picture)
            tracker.artifact(artifacts.write_bytes(f"{folder}/{name}.png", picture), "plots")
    if not any(facts.not_private for facts in report.iterations):
        tracker.artifact(page)
