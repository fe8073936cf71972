"""Artifacts on the run's page in Prefect: plan, iterations, result and links.

A failure to show an artifact is logged and does not stop the run.
"""

from collections.abc import Mapping
from typing import Any

from prefect import get_run_logger
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from connectors.interfaces.json_values import Json
from tasks.metrics.iteration_record import IterationRecord, table
from tasks.prefect import page
from tasks.reporting import terminal as formats
from tasks.reporting.run_summary import RunSummary


def show_text(key: str, description: str, text: str) -> None:
    """Show a text in Markdown."""
    # Deferred: a slow or missing server of Prefect must not hold up the run.
    page.defer(lambda: create_markdown_artifact(text, key=key, description=description))


def show_plan(plan: Mapping[str, Any]) -> None:
    """Show the plan of the run, as in the terminal."""
    show_text("plan", "Plan of this run", f"```\n{formats.plan(plan)}\n```")


def show_mlflow(link: str | None) -> None:
    """Link to the run in MLflow, if a server shows it."""
    about = "Experiment tracking"
    if link:
        page.defer(lambda: create_link_artifact(link, "MLflow run", "mlflow-run", about))


def show_iteration(facts: IterationRecord, line: str) -> None:
    """Show an iteration as a table, and log its line."""
    rows = table(facts)
    get_run_logger().info(line)
    page.defer(
        lambda: create_table_artifact(rows, key=f"iteration-{facts.iteration}", description=line)
    )


def show_result(summary: Json, link: str | None) -> None:
    """Show the result, as in the terminal, with a link to the report in MLflow if a server shows it."""
    text = f"```\n{formats.summary(summary)}\n```"
    if link:
        text += f"\n[The report in MLflow]({link}/artifactPath/report.html)"
    show_text("report", "Result and report", text)


def result_line(summary: RunSummary) -> str:
    """Return the result of a run in one line, as the message of its state in Prefect and for MLflow."""
    parts = [f"{formats.scores(summary)}; {formats.outcome(summary)}"]
    if summary.usefulness:
        parts.append(summary.usefulness["line"])
    parts += [f"Warning: {warning}" for warning in summary.usefulness_warnings]
    return ". ".join(parts)
