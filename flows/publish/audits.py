"""Require that no audit about a run's noise failed, before anything is exported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import AuditError
from flows.catalog import find_flow
from flows.config.files import read_stored
from flows.engine.prepare import releases_of
from flows.storage.audit_findings import AuditLine, audits_of_releases

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts


def require_no_red_audit(
    artifacts: Artifacts, manifest: Mapping[str, Any]
) -> tuple[tuple[AuditLine, ...], tuple[str, ...]]:
    """Return the newest audits of a run's noise, and the names of its releases that were never audited.

    Raises AuditError if one of them failed.
    """
    config: Any = read_stored(find_flow(manifest["flow"]).config, manifest)
    releases = releases_of(config).items
    audits, never = audits_of_releases(
        artifacts, {release.name: release.audits() for release in releases if release.charges()}
    )
    for audit in audits:
        if not audit.passed:
            raise AuditError(
                f"Nothing was exported: audit {audit.run_id} of {audit.ended[:10]} is red for the noise of this run "
                f"({audit.mechanism}: epsilon {audit.claimed:.4f} is claimed, at least {audit.proven:.4f} was proven, "
                f"or noise was reused). Show the findings with: wasp show {audit.run_id}. Fix the noise, start a "
                "new run (released noise cannot be repaired) and audit again: wasp audit NAME"
            )
    return audits, never
