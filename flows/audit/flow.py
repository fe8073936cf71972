"""The audit: what somebody can prove about one record who sees every release, beside what the run claims.

Attacks with a canary of known direction on the noisy releases of each mechanism; lower bounds in terms of Gaussian
differential privacy (Dong, Roth and Su 2022) or of epsilon itself, error rates by Clopper and Pearson. If asked, one
whole run of WASP with many planted canaries is attacked as well (Steinke, Nasr and Jagielski 2023). Records are made
up: no private row is opened and no budget spent.
"""

from typing import Any

from prefect import flow

from flows.audit import text
from flows.audit.config import AuditConfig
from flows.audit.run import audit_name, auditing, require_sound
from flows.runtime.prefect_progress import shown
from tasks.prefect.audit import attack, attack_pipeline, show_findings
from tasks.prefect.runtime import run_step
from tasks.reporting.audit_plots import pictures


@flow(name="audit", flow_run_name=audit_name, validate_parameters=True)
def audit(config: AuditConfig) -> dict[str, Any]:
    """Attack noisy releases, and a whole run if asked, and compare what is proven with what is claimed.

    Args:
        config: the promise that is audited, mechanisms, trials and confidence, and whether a whole run is attacked.

    Returns:
        What audit.json holds and `wasp run audit --json` prints. AuditError where it is red: more is proven.
    """
    with auditing(config) as run:
        # each mechanism runs many times with the canary and as often without it; who took part is guessed each time
        attacks = [attack.submit(shown, job) for job in run.attacks]
        # one whole run with many canaries: who took part is guessed by its votes, and by its texts alone
        whole = run_step(attack_pipeline, shown, run.trial) if run.trial else None
        result = run.finish([one.result() for one in attacks], whole)
        run_step(show_findings, text.rows(result), text.verdict(result), pictures(result))
    return require_sound(result)
