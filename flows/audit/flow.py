"""Audit flow: compare the claimed epsilon with the epsilon that attacks prove.

Each release of a run brings its attack, which uses a canary of known direction. Lower bounds are in terms of Gaussian
differential privacy (Dong, Roth and Su 2022) or of epsilon; error rates follow Clopper and Pearson. Optionally, one
whole run of WASP with many canaries is attacked (Steinke, Nasr and Jagielski 2023). All records are synthetic or
public: an audit opens no private row and spends no budget.
"""

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from connectors.interfaces.errors import AuditError
from connectors.interfaces.json_values import Json
from flows.audit import text
from flows.audit.config import AuditConfig
from flows.audit.run import attack, audit_name, auditing


@flow(name="audit", flow_run_name=audit_name, validate_parameters=True)
def audit(config: AuditConfig) -> Json:
    """Attack each release that a run would draw, and optionally a whole run.

    Compare proven with claimed epsilon.

    Args:
        config: configuration of the run, trials, confidence and the optional attack on a whole run.

    Returns:
        The content of audit.json, as printed by `wasp audit --json`. Raises AuditError if more is proven than
        claimed.
    """
    with auditing(config) as run:
        # each release is drawn equally often with and without the canary; the attack guesses its membership each time
        futures = [attack.submit(job, config.trials) for job in run.attacks]
        # one whole run with many canaries; attacks guess membership from the votes, and from the texts alone
        whole = run.attack_whole_run()
        result = run.finish([future.result() for future in futures], whole)
        page = f"```\n{text.summary(result)}\n```"
        create_markdown_artifact(page, key="audit", description="Claimed and proven epsilon")
    if not result["passed"]:
        raise AuditError(text.red(result))
    return result
