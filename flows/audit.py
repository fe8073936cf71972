"""The audit: what somebody can prove about one record who sees every release, beside what the run claims.

Attacks with a canary of known direction on the noisy votes, for each calibration; lower bounds in terms of Gaussian
differential privacy (Dong, Roth and Su 2022), error rates by Clopper and Pearson. Records are made up: no private row
is opened and no budget spent.
"""

from typing import Any

from prefect import flow

from flows.audit_run import audit_name, auditing, require_sound
from flows.live import shown
from flows.params_audit import AuditConfig
from tasks.audit_steps import attack, show_findings
from tasks.steps import now


@flow(name="audit", flow_run_name=audit_name, validate_parameters=True)
def audit(config: AuditConfig) -> dict[str, Any]:
    """Attack the noisy votes and compare what is proven with what is claimed; red where more is proven.

    Args:
        config: the promise that is audited, calibrations, trials and confidence.

    Returns:
        What audit.json holds and `wasp run audit --json` prints. AuditError where it is red.
    """
    with auditing(config) as run:
        # each mechanism runs many times with the canary and as often without it; who took part is guessed each time
        attacks = [attack.submit(shown, job) for job in run.attacks]
        result = run.finish([one.result() for one in attacks])
        now(show_findings, run.rows(result), run.verdict(result))
    return require_sound(result)
