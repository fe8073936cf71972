"""Artifacts on the run's page in Prefect: plan, iterations, result and links.

A failure to show an artifact is logged and does not stop the run.
"""

from __future__ import annotations

from typing import Any

from prefect import get_run_logger
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from flows.engine import text as formats
from flows.engine.run_summary import RunSummary
from tasks.metrics.iteration_record import Facts, table
from tasks.prefect import page


class RunPage:
    """The artifacts of one run; plan and result are the texts of the terminal."""

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

    def iteration(self, facts: Facts, line: str) -> None:
        """Show an iteration as a table, and log its line."""
        rows = table(facts)
        get_run_logger().info(line)
        page.later(lambda: create_table_artifact(rows, key=f"iteration-{facts.iteration}", description=line))

    def stopped(self, text: str) -> None:
        """Show how a stopped run continues, and what it has reserved."""
        page.later(lambda: create_markdown_artifact(text, key="stopped", description="This run was stopped"))

    def result(self, summary: dict[str, Any], link: str | None) -> None:
        """Show the result, with a link to the report in MLflow if a server shows it."""
        text = f"```\n{formats.summary(summary)}\n```"
        if link:
            text += f"\n[The report in MLflow]({link}/artifactPath/report.html)"
        page.later(lambda: create_markdown_artifact(text, key="report", description="Result and report"))


def result_line(summary: RunSummary) -> str:
    """Return the result of a run in one line, as the message of its state in Prefect and for MLflow."""
    useful = summary.usefulness
    parts = [f"{formats.scores(summary)}; {formats.outcome(summary)}", *([useful["line"]] if useful else [])]
    return ". ".join([*parts, *(f"Warning: {warning}" for warning in summary.usefulness_warnings)])
