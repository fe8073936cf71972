"""Prefect task that shows the tables of a comparison."""

from __future__ import annotations

from prefect.artifacts import create_markdown_artifact

from tasks.prefect.runtime import step


@step("show comparison")
def show_comparison(title: str, tables: str) -> None:
    """Show the tables on the run's page."""
    create_markdown_artifact(tables, key="comparison", description=title)
