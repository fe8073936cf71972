"""Artifacts on the run's page in Prefect: plan, ledger, curves, result and links.

A failure to show an artifact is logged and does not stop the run.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect import get_client, get_run_logger
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)
from prefect.client.schemas.actions import ArtifactUpdate

from flows.engine import text as formats
from flows.engine.run_summary import RunSummary
from tasks.accounting.composition import epsilon_of
from tasks.metrics.iteration_record import Facts, sentence, table
from tasks.prefect import page

if TYPE_CHECKING:
    from connectors.ledger.state import Entry

MOST_BYTES = 500_000
"""Largest image in bytes; the artifact contains the image. Larger ones are only in MLflow and in the report."""


class RunPage:
    """The artifacts of one run; the growing ledger table remains one artifact."""

    def __init__(self) -> None:
        self._ledger: UUID | None = None

    def plan(self, plan: dict[str, Any]) -> None:
        """Show the plan of the run."""
        text = f"```\n{formats.plan(plan)}\n```"
        page.later(lambda: create_markdown_artifact(text, key="plan", description="Plan of this run"))

    def mlflow(self, link: str | None) -> None:
        """Link to the run in MLflow, if a server shows it."""
        if link:
            page.later(
                lambda: create_link_artifact(
                    link, key="mlflow-run", link_text="MLflow run", description="Experiment tracking"
                )
            )

    def iteration(self, facts: Facts) -> None:
        """Show an iteration as a table, and log its sentence."""
        summary, rows = sentence(facts), table(facts)
        get_run_logger().info(summary)
        page.later(lambda: create_table_artifact(rows, key=f"iteration-{facts.iteration}", description=summary))

    def ledger(self, entries: Sequence[Entry], delta: float) -> None:
        """Show all releases so far with their composed epsilon."""
        rows = ledger_rows(entries, delta)
        if rows:
            page.later(lambda: self._show_ledger(rows, delta))

    def _show_ledger(self, rows: list[dict[str, Any]], delta: float) -> None:
        about = (
            "Releases that the output of this run depends on, charged or reused; epsilon so far "
            f"{rows[-1]['epsilon so far']} at delta {delta:g}"
        )
        if self._ledger is None:
            artifact = create_table_artifact(rows, key="privacy-ledger", description=about)
            self._ledger = UUID(str(artifact))
            return
        with get_client(sync_client=True) as client:
            client.update_artifact(self._ledger, ArtifactUpdate(data=json.dumps(rows), description=about))

    def curves(self, picture: bytes | None) -> None:
        """Show FID and accuracy per iteration as an image (PNG)."""
        if picture is None or len(picture) > MOST_BYTES:
            return
        url = "data:image/png;base64," + base64.b64encode(picture).decode()
        page.later(lambda: create_image_artifact(url, key="fid-accuracy", description="FID and accuracy per iteration"))

    def stopped(self, text: str) -> None:
        """Show how a stopped run continues, and what it has reserved."""
        page.later(lambda: create_markdown_artifact(text, key="stopped", description="This run was stopped"))

    def result(self, summary: RunSummary, link: str | None) -> None:
        """Show the result with the path of the report."""
        text = result_markdown(summary, link)
        page.later(lambda: create_markdown_artifact(text, key="report", description="Result and report"))


def ledger_rows(entries: Sequence[Entry], delta: float) -> list[dict[str, Any]]:
    """Return one row per release, with the epsilon so far and the run that was charged."""
    rows = []
    for number, entry in enumerate(entries):
        loss = epsilon_of([earlier.event for earlier in entries[: number + 1]], delta)
        rows.append(
            {
                "release": entry.slot,
                "mechanism": entry.mechanism,
                "noise scale": entry.noise_scale,
                "sensitivity": entry.sensitivity,
                "epsilon so far": formats.epsilon(None if loss == float("inf") else loss),
                "charged to run": entry.run_id,
                "ledger line": entry.number,
            }
        )
    return rows


def result_markdown(summary: RunSummary, link: str | None) -> str:
    """Return the result of a run in Markdown: scores, privacy loss and links to the report."""
    report = summary.report
    location = "in the shared store" if "://" in report else "on the machine of the worker"
    lines = [
        f"**{formats.scores(summary)}; {formats.outcome(summary)}.**",
        "",
        *usefulness_bullets(summary),
        *(f"- degraded: {problem}" for problem in summary.problems),
        *(f"- {' '.join(line.split())}" for line in formats.budget_lines(summary)),
        f"- Report: `{report}` {location}; render it again with `wasp report {summary.run_id}`",
    ]
    if link:
        lines.append(f"- [The report in MLflow]({link}/artifactPath/{report.rpartition('/')[2]})")
    shared = f"`wasp export {summary.run_id} FOLDER`"
    lines.append(f"- Export: {'nothing' if summary.epsilon_spent is None else shared}")
    return "\n".join([*lines, "", *iteration_table(summary.iterations)])


def iteration_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the iterations as a Markdown table."""
    if not rows:
        return []
    heads, cells = formats.iteration_cells(rows)
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *cells)]


def result_line(summary: RunSummary) -> str:
    """Return the result of a run in one line, as the message of its state in Prefect."""
    useful = summary.usefulness
    parts = [f"{formats.scores(summary)}; {formats.outcome(summary)}", *([useful["line"]] if useful else [])]
    return ". ".join([*parts, *(f"Warning: {warning}" for warning in summary.usefulness_warnings)])


def usefulness_bullets(summary: RunSummary) -> list[str]:
    """Return accuracy, baseline and the warnings of a useless run, in Markdown."""
    useful = summary.usefulness
    if not useful:
        return []
    lines = [f"- {useful['line']} ({useful['basis']})", *(f"- **Warning**: {text}" for text in useful["warnings"])]
    commands = formats.advice(summary.flow, bool(summary.dataset), bool(summary.iterations))
    return lines + [f"- Try `wasp {step}`: {why}" for step, why in commands if useful["warnings"]]
