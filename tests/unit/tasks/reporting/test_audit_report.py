"""The page of an audit: one golden page of a red audit with a whole run."""

from flows.audit import text
from tasks.reporting.audit_report import audit_page, pictures
from tests.support.golden_pages import check_page

VOTES = {
    "mechanism": "wasp tight", "adjacency": "add_remove", "delta": 1e-5, "sensitivity": 1.6, "epsilon_stated": 4.0,
    "epsilon_claimed": 4.0, "protects": "record", "noise": "gaussian", "noise_scale": 3.5, "releases": 4,
    "epsilon_proven": 4.5, "stated_holds": True, "sound": False, "fresh": True, "number_kept": True, "passed": False,
    "findings": [{"what": "who took part", "passed": False, "epsilon_proven": 4.5, "remark": "2 false alarms"}],
    "freshness": "noises correlate by 0.1 standard errors", "number": "4 releases seen, 4 planned",
}  # fmt: skip
PRINTED = VOTES | {"mechanism": "dp_kps density paper", "epsilon_claimed": 10.0, "epsilon_proven": 5.0}
PRINTED |= {"stated_holds": False, "sound": True, "passed": True, "findings": []}
ATTACK = {"what": "noisy votes", "guesses": 250, "correct": 200, "bound": 0.68, "auc": 0.69, "interval": [0.64, 0.73]}
WHOLE = VOTES | {"mechanism": "whole run", "epsilon_proven": 0.68, "passed": True, "attacks": [ATTACK | {"hits": 0.1}]}
RESULT = {
    "run_id": "audit-e4", "ended": "2026-11-25T10:00:00", "passed": False, "trials": 1000, "confidence": 0.999,
    "mechanisms": [VOTES, PRINTED], "pipeline": WHOLE, "seconds": 9.0, "audit": "runs/audit-e4/audit.json",
}  # fmt: skip


def test_the_page_and_the_summary_state_what_is_red_and_what_is_no_guarantee() -> None:
    page = audit_page(RESULT, text.sentence(RESULT), [*text.reasons(RESULT), *text.notes(RESULT)])
    check_page("audit", page)
    assert "<mark>red</mark>" in page
    assert pictures(RESULT)["audit-bounds"].startswith(b"\x89PNG")
    shown = text.summary(RESULT)
    for part in ("Audit is RED", "epsilon 4.0000 is claimed, at least epsilon 4.5000 is proven at delta 1e-05",
                 "the printed epsilon 4.0000 is no guarantee for one record", "AUC 0.690"):  # fmt: skip
        assert part in shown, part
    assert "RED: wasp tight" in text.verdict(RESULT)
