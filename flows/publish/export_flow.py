"""An export that a second person approves: a flow run that pauses in Prefect before anything is written."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.settings import get_current_settings
from pydantic import Field

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ApprovalError, ConfigError
from flows.engine.approval import Approval
from flows.engine.text import epsilon
from flows.publish.dataset_card import Told
from flows.publish.export import Wish, export_run
from flows.runtime.manifest import read_book
from flows.runtime.pausing import Answer, Question, ask_in_prefect
from flows.runtime.state_folder import state_folder, who
from flows.runtime.stores import open_artifacts
from tasks.reporting.text import added, charged

NOTHING = "Nothing was exported."


class ExportAnswer(Answer):
    """What the form of an export asks for."""

    approved: bool = Field(
        False,
        title="Approved",
        description="Write the bundle: what is in it may leave.",
        json_schema_extra={"position": 0},
    )


@flow(name="export", flow_run_name="export-{run_id}", persist_result=False, retries=0)
def export(run_id: str, folder: str, license_: str = "other", overlap_check: bool = True) -> dict[str, Any]:
    """Write the signed bundle of a run, if the release gate lets it pass and a second person approves.

    Args:
        run_id: the finished run.
        folder: a new or empty folder on the machine that carries this out.
        license_: identifier of the licence on the card.
        overlap_check: look for passages of private rows.

    Returns:
        What `wasp export --json` prints.
    """
    home = state_folder()
    artifacts = open_artifacts(home)
    book, asks = read_book(artifacts, run_id), who()
    minutes = int(book["config"].get("export", {}).get("approval_minutes", 60))
    wish = Wish(license_, overlap_check, lambda told: _approve(told, asks, minutes))
    return export_run(home, artifacts, book, Path(folder), wish)


def require_server() -> None:
    """Raise ConfigError where there is no Prefect server on whose page somebody could answer."""
    if not get_current_settings().api.url:
        raise ConfigError(
            "A second person has to approve this export in Prefect, but there is no server to ask on. Name one with "
            f"PREFECT_API_URL. {NOTHING}"
        )


def _approve(told: Told, asks: str, minutes: int) -> Approval:
    text = _text(told, asks, minutes)
    contract = digest([told.report.run_id, told.license, asks, asdict(told.overlap) if told.overlap else None])
    key = f"export-{contract[:16]}"
    answer, at = ask_in_prefect(Question("this export", key, minutes, text, NOTHING, ExportAnswer))
    if _plain(answer.by) == _plain(asks):
        raise ApprovalError(f"{asks} asked for this export and cannot approve it: somebody else has to. {NOTHING}")
    return Approval(answer.by, at, "in Prefect", contract, answer.reason)


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()


def _text(told: Told, asks: str, minutes: int) -> str:
    report, happened = told.report, told.report.happened
    search = told.unsearched
    if told.overlap is not None:
        search = f"no text repeats {told.overlap.words} words of a private row ({told.overlap.mark})"
    lines = [
        f"run           {report.run_id} of dataset '{told.book['dataset']}'",
        f"texts         {happened.samples}, and the student trained on them",
        f"privacy loss  epsilon {epsilon(happened.epsilon)} of these texts at delta {report.plan.delta:g} in "
        f"{happened.releases} releases",
        f"budget        this run added epsilon {added(happened)} ({charged(happened)})",
        f"promise       {told.unit}",
        f"licence       {told.license}",
        f"copies        {search}",
        f"budget book   sound; its last line is {told.head[:16]}",
    ]
    lines += [f"warning       {warning}" for warning in report.usefulness.warnings] if report.usefulness else []
    listed = "\n".join(lines)
    return (
        f"{asks} wants to give this away; somebody else has to agree:\n\n```\n{listed}\n```\n\n"
        f"Refused, or not answered within {minutes} minutes: nothing is exported."
    )
