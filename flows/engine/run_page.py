"""Artifacts on the run's page in Prefect: plan, iterations, result and links.

A failure to show an artifact is logged and does not stop the run.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prefect import get_run_logger
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from connectors.interfaces.json_values import Json
from tasks.accounting.guarantee import epsilon_text
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


class _PageHandler(logging.Handler):
    """Sends warnings to the log of a run's page."""

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[Any]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Send the message; never a traceback, whose values are unknown."""
        self._log.log(record.levelno, record.getMessage())


@contextmanager
def connector_warnings() -> Iterator[None]:
    """Show warnings of connectors on the run's page: a model or a ledger that is away, and for how long.

    They come from threads without the run's context, of which Prefect shows nothing by itself.
    """
    handler = _PageHandler(get_run_logger())
    connectors = logging.getLogger("connectors")
    connectors.addHandler(handler)
    try:
        yield
    finally:
        connectors.removeHandler(handler)


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
        address, _, query = link.partition("?")
        text += f"\n[The report in MLflow]({address}/artifactPath/report.html?{query})"
    show_text("report", "Result and report", text)


def result_line(summary: RunSummary) -> str:
    """Return the result of a run in one line, as the message of its state in Prefect and for MLflow."""
    parts = [f"{formats.scores(summary)}; {formats.outcome(summary)}"]
    if summary.usefulness:
        parts.append(summary.usefulness["line"])
    parts += [f"Warning: {warning}" for warning in summary.usefulness_warnings]
    return ". ".join(part.rstrip(".") for part in parts)


def charge_line(summary: RunSummary, budget: Mapping[str, Any] | None, is_reused: bool) -> str:
    """Return what a run charged and what its dataset has left, as the first sentence of its state's message.

    Empty for a run that charges no release. `budget`: that of its record. `is_reused`: the run had finished before.
    """
    if not summary.dataset or not summary.releases:
        return ""
    left = ""
    if budget is not None:
        left = (
            f"; {max(0.0, budget['cap'] - budget['spent']):.4g} of the cap {budget['cap']:.4g} left"
        )
    if is_reused:
        return f"Reused, nothing charged{left}. "
    if not summary.releases_charged:
        return f"Nothing charged, all releases are of earlier runs{left}. "
    return f"Charged epsilon {epsilon_text(summary.epsilon_added)}{left}. "
