"""Artifacts on the run's page in Prefect: plan, iterations, result and links.

A failure to show an artifact is logged and does not stop the run.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

from prefect import get_run_logger
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from connectors.interfaces.json_values import Json
from connectors.tracking.address import table_page
from tasks.accounting.guarantee import epsilon_text
from tasks.metrics.iteration_record import IterationRecord, table
from tasks.prefect import page
from tasks.reporting import terminal as formats
from tasks.reporting.run_summary import RunSummary

PAGE_WIDTH = 76
"""Characters of a line on the page of an artifact in a window of 1,440 px; a longer one is scrolled sideways."""

ROUNDING = 1e-3
"""Difference of an epsilon that no message shows."""


def show_text(key: str, description: str, text: str) -> None:
    """Show a text in Markdown."""
    # Deferred: a slow or missing server of Prefect must not hold up the run.
    page.defer(lambda: create_markdown_artifact(text, key=key, description=description))


def show_plan(plan: Mapping[str, Any]) -> None:
    """Show the plan of the run, as in the terminal."""
    show_text("plan", "Plan of this run", f"```\n{narrow(formats.plan(plan), PAGE_WIDTH)}\n```")


def narrow(text: str, width: int) -> str:
    """Return a plan or result with lines that fit Prefect's pages, which do not wrap them; what follows is indented."""
    lines = []
    for line in text.splitlines():
        if not line.strip(" -"):
            # The rule below the heads of a table, or an empty line.
            lines.append(line[:width])
            continue
        # A heading, with the blanks that align the contents of all lines.
        heading = re.match(r"(\S.*?)?  +", line)
        indent = heading.end() if heading else 0
        # Paths stay whole, on the line of their heading: somebody may copy them.
        if " " not in line[indent:]:
            lines.append(line)
            continue
        lines += wrap(
            line,
            width,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


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
    result = formats.summary(summary)
    if link:
        # Longer than a line of the page, which has links instead.
        result = result.replace(f"MLflow      {link}\n", "")
    text = f"```\n{narrow(result, PAGE_WIDTH)}\n```"
    if link:
        address, _, query = link.partition("?")
        text += f"\n[The report in MLflow]({address}/artifactPath/report.html?{query})"
        text += f"\n\n[All runs of this task in MLflow]({table_page(link)})"
    show_text("report", "Result and report", text)


def result_line(summary: RunSummary) -> str:
    """Return the result of a run in one line, as the message of its state in Prefect and for MLflow."""
    parts = [f"{formats.scores(summary)}; {formats.outcome(summary)}"]
    if summary.usefulness:
        parts.append(summary.usefulness["line"])
    parts += [f"Warning: {warning}" for warning in summary.usefulness_warnings]
    return ". ".join(part.rstrip(".") for part in parts)


def degraded_line(problems: Sequence[str]) -> str:
    """Return why a run is degraded, with what to do, for the message of its state; empty for any other."""
    if not problems:
        return ""
    return f"Degraded: {'; '.join(problem.rstrip('.') for problem in problems)}. "


def charge_line(summary: RunSummary, budget: Mapping[str, Any] | None, is_reused: bool) -> str:
    """Return what a run charged and what its dataset has left, as the first sentence of its state's message.

    Empty for a first run without a release. `budget`: that of its record. `is_reused`: the run had finished before.
    """
    left = ""
    if budget is not None:
        left = (
            f"; {max(0.0, budget['cap'] - budget['spent']):.4g} of the cap {budget['cap']:.4g} left"
        )
    if is_reused:
        return f"Reused, nothing charged{left}. "
    if not summary.dataset or not summary.releases:
        return ""
    if not summary.releases_charged:
        return f"Nothing charged, all releases are of earlier runs{left}. "
    added = summary.epsilon_added
    if budget is not None and added is not None and budget["spent"] > added + ROUNDING:
        # Otherwise the difference to what was left before looks like an error.
        left += ", because epsilons do not simply add up"
    return f"Charged epsilon {epsilon_text(added)}{left}. "
