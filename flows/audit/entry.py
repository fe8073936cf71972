"""The flow audit in the catalogue."""

from __future__ import annotations

from flows.audit.config import AuditConfig
from flows.engine.method import FlowEntry, Preset

ENTRY = FlowEntry(
    name="audit",
    flow_path="flows.audit.flow.audit",
    config=AuditConfig,
    planner="flows.audit.run.planned",
    summary="attacks noisy releases, and a whole run if asked, with made-up records, and says what that proves of what "
    "is claimed",
    presets=(
        Preset("demo", "audit_here.yaml", "Every mechanism at the privacy of the demo: under a minute."),
        Preset(
            "pipeline",
            "audit_pipeline_here.yaml",
            "One whole run of the embedded pipeline with 600 canaries, and its vote: about a minute and a half.",
        ),
    ),
    text_module="flows.audit.text",
    result="audit.json",
    opens_rows=False,
    continued=False,
    asks_models=False,
)
