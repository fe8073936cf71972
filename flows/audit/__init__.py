"""The audit flow."""

from flows.audit.config import AuditConfig
from flows.method import FlowEntry

ENTRY = FlowEntry(
    name="audit",
    flow_path="flows.audit.flow.audit",
    config=AuditConfig,
    planner="flows.audit.run.planned",
    checker="flows.audit.run.checked_attacks",
    summary="attacks each noisy release of a run, and a whole run if asked, with made-up records, and says what that "
    "proves of what is claimed",
    text_module="flows.audit.text",
    result="audit.json",
    resumable=False,
)
