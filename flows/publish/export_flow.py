"""Export flow that pauses in Prefect until a second person approves."""

from pathlib import Path

from prefect import flow
from prefect.settings import get_current_settings

from connectors.interfaces.content_keys import digest
from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ApprovalError, ConfigError
from connectors.interfaces.json_values import Json
from flows.publish.dataset_card import BundleFacts
from flows.publish.export import export_run
from flows.publish.gate import warnings_of
from flows.runtime.manifest import Approval, read_manifest
from flows.runtime.pausing import request_approval_in_prefect
from flows.runtime.state_folder import current_user, state_folder
from flows.runtime.stores import open_artifacts
from tasks.accounting.guarantee import epsilon_text
from tasks.reporting.text import added, charged

NOTHING = "Nothing was exported."


@flow(name="export", flow_run_name="export-{run_id}", persist_result=False, retries=0)
def export(run_id: str, folder: str, license_: str = "other", overlap_check: bool = True) -> Json:
    """Write the signed bundle of a run after the release gate and an approval.

    Args:
        run_id: the finished run.
        folder: a new or empty folder on the machine that executes this flow.
        license_: identifier of the licence on the card.
        overlap_check: search for passages of private rows.

    Returns:
        The JSON object of `wasp export --json`.
    """
    home = state_folder()
    manifest = read_manifest(open_artifacts(home), run_id)
    requester = current_user()
    return export_run(
        home,
        manifest,
        Path(folder),
        license_,
        overlap_check,
        lambda facts: _approve(facts, requester),
    )


def require_server() -> None:
    """Raise ConfigError without a Prefect server, which the approval needs."""
    if not get_current_settings().api.url:
        raise ConfigError(
            "PREFECT_API_URL: not set, but this export needs an approval on a Prefect server. Set it to the server's "
            f"address. {NOTHING}"
        )


def _approve(facts: BundleFacts, requester: str) -> Approval:
    # A retry reuses an approval of exactly this: another licence, or a switched-off search, needs a new one.
    approved = [facts.report.run_id, facts.license, requester, facts.unsearched]
    if facts.public_texts is not None:
        approved.append(str(facts.public_texts))
    contract = digest(approved)
    approval = request_approval_in_prefect(
        "this export", contract, _text(facts, requester), NOTHING
    )
    if _plain(approval.by) == _plain(requester):
        raise ApprovalError(
            f"{requester} requested this export and cannot approve it. A second person must approve. {NOTHING}"
        )
    return approval


def _plain(name: str) -> str:
    # The approver types a name: other blanks or capitals make no second person.
    return " ".join(name.split()).casefold()


def _text(facts: BundleFacts, requester: str) -> str:
    report = facts.report
    search = (
        facts.unsearched
        or "searched after the approval (not private); one of a private row stops the export"
    )
    lines = [
        f"run           {report.run_id} of dataset '{facts.book['dataset']}'",
        f"texts         {report.n_synthetic}, and the student",
        f"privacy loss  epsilon {epsilon_text(report.epsilon_spent)} of these texts at delta {report.delta:g} per "
        f"{report.protects} in {counted(report.releases, 'release')}",
        f"budget        this run added epsilon {added(report)} ({charged(report)})",
        f"guarantee     {facts.unit}",
        f"licence       {facts.license}",
        f"copies        {search}",
        "ledger        sound",
    ]
    if facts.corpus:
        lines.append(f"public texts  {facts.corpus}")
    lines += [f"warning       {warning}" for warning in warnings_of(report)]
    listed = "\n".join(lines)
    return f"{requester} requests this export. A second person must approve:\n\n```\n{listed}\n```"
