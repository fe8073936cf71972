"""Three suites, chosen by what a test is for: `make test` (fast), `make ci` (fast and further), nightly.

A test belongs to the fast suite if it needs only this process: no server, command or other process, no neural weights,
no statistics of fresh noise. One whole run of WASP, marked `core`, is part of it. The nightly suite repeats what the
further one shows once: for other methods, at more points, for more data.
"""

from pathlib import Path

from tests.support.paths import ROOT

TESTS = ROOT / "tests"
FURTHER: dict[str, tuple[str, ...]] = {
    "servers, commands and other processes": (
        "e2e/",
        "chaos/",
        "deployments/test_postgres.py",
        "deployments/test_register.py",
        "integration/api/",
        "integration/audit/",
        "integration/data/",
        "integration/databases/test_ledger_postgres.py",
        "integration/docs/",
        "integration/methods/",
        "integration/prefect/",
        "integration/publish/",
        "integration/reproduce/",
        "integration/storage/",
        "integration/tracking/",
        "integration/vendors/test_litellm.py",
        "integration/vendors/test_stopping.py",
        "infra/test_databases.py",
        "infra/test_containers.py",
        "infra/test_kubernetes.py",
        "unit/connectors/artifacts/test_store.py::test_kill_at_any_moment",
        "unit/connectors/interfaces/test_threads.py",
        "unit/connectors/ledger/test_ledger.py::TestSqliteShared",
        "unit/connectors/models/transformers/test_loading.py",
        "unit/connectors/tracking/",
        "unit/flows/federation/",
        "unit/flows/storage/test_ledger_backup.py",
        "unit/tasks/private/parties/test_coordinator.py",
        "unit/tasks/private/parties/test_party.py",
    ),
    "neural weights": (
        "unit/connectors/embedders/",
        "unit/connectors/models/transformers/",
        "unit/tasks/private/teachers/test_answers.py",
        "unit/tasks/private/exposure/test_train.py",
        "unit/tasks/private/training/test_dp_train.py",
        "unit/tasks/private/training/test_tuned_classifier.py",
        "unit/tasks/students/test_train.py",
    ),
    "attacks and statistics of fresh noise": (
        "unit/tasks/attacks/test_attack.py",
        "unit/tasks/private/votes/test_canaries.py",
        "unit/tasks/private/training/test_attack.py",
        "unit/flows/audit/",
    ),
    "everything that ships, and many random histories": (
        "unit/connectors/data/",
        "unit/connectors/ledger/test_cap.py",
        "unit/connectors/ledger/test_rules.py",
        "deployments/test_forms.py",
        "unit/flows/config/test_shipped_configs.py",
        "unit/flows/methods/test_golden_releases.py::test_a_configuration_releases_what_is_recorded[shipped",
        "unit/tasks/guidance/test_sequences.py",
    ),
}
"""Tests that `make test` leaves out and CI runs, by the reason; further ones carry the mark `runs` or `statistical`."""

NIGHTLY: dict[str, tuple[str, ...]] = {
    "how a run is killed, resumed or retried; the completion store": (
        "chaos/test_continue_a_run.py",
        "chaos/test_faults.py",
        "chaos/test_kill_a_run.py",
        "chaos/test_kill_points.py::test_dp_kps",
        "e2e/methods/test_methods.py::test_killed",
        "e2e/methods/test_fusegen.py::test_killed",
        "e2e/test_degraded.py::test_a_model_that_is_back",
        "e2e/test_earlier_versions.py",
        "e2e/test_degraded.py::test_a_run_whose_other_models",
        "e2e/test_retention.py",
        "e2e/test_stop_and_go_on.py::test_a_run_started_with_relative_paths",
        "e2e/test_stop_and_go_on.py::test_a_run_that_is_interrupted",
        "unit/tasks/private/training/test_dp_train.py::test_kill_9",
    ),
    "tasks/private, tasks/audit, noise, what a run writes": (
        "e2e/test_nothing_private_leaves.py::test_nothing_of_a_private_row_is_found_after_a_run[pre_text",
        "e2e/test_nothing_private_leaves.py::test_nothing_of_a_private_row_is_found_after_a_run[aug_pe",
        "e2e/test_nothing_private_leaves.py::test_nothing_of_a_private_row_is_found_after_a_run[dp_",
        "e2e/test_nothing_private_leaves.py::test_nothing_of_a_private_row_is_found_after_a_run[kd_tutor",
        "e2e/test_nothing_private_leaves.py::test_nothing_of_a_private_row_is_found_after_a_run[wasp-privacy1",
        "e2e/test_nothing_private_leaves.py::test_a_run_names_its_dataset",
        "unit/flows/audit/test_run.py::test_a_sabotaged_mechanism",
        "unit/flows/publish/test_audits.py::test_an_export_without",
        "unit/tasks/attacks/test_attack.py::test_a_sabotaged_mechanism",
        "unit/tasks/private/test_sabotage.py::test_every_sabotage",
    ),
    "the methods of the papers": (
        "e2e/methods/test_methods.py::test_texts_are_chosen",
        "e2e/methods/test_methods.py::test_the_parts_of_the_paper",
        "e2e/methods/test_methods.py::test_the_phrases_alone",
        "e2e/methods/test_methods.py::test_without_noise",
        "e2e/methods/test_only_private.py::test_another_run",
        "unit/flows/methods/wasp/test_config.py::test_any_flow_offers",
    ),
    "configurations that ship": (
        "unit/flows/config/test_shipped_configs.py::test_a_comparison_loads_and_every_cell",
        "unit/flows/methods/test_golden_releases.py::test_a_configuration_releases_what_is_recorded[compared",
    ),
    "federated parties": (
        "e2e/test_federated.py::test_a_comparison",
        "e2e/test_federated.py::test_a_party_killed",
        "e2e/test_federated.py::test_parties_meet",
    ),
    "task runners, shared stores, versions of Dask": ("e2e/test_outgrowing.py",),
    "vendors' money, batches and keys, served models": (
        "e2e/test_paid_models.py::test_money_at_a_server",
        "e2e/test_paid_models.py::test_a_key_may_lie",
    ),
    "approvals, failures and retries on Prefect's pages": (
        "e2e/browser/test_a_run.py",
        "e2e/browser/test_failures.py",
    ),
    "bundles, their cards and classifiers, metrics of other packages": (
        "integration/methods/test_third_party_metric.py",
        "integration/publish/test_export.py::test_the_lines_of_the_card_reach_what_the_card_states[soft",
        "integration/publish/test_export.py::test_the_lines_of_the_card_use_the_classifier[finetune",
        "integration/publish/test_export.py::test_the_lines_of_the_card_use_the_classifier[mlp",
        "integration/publish/test_export.py::test_the_lines_of_the_card_use_the_classifier[roberta",
    ),
    "automations, exports and downstream deployments": ("deployments/test_downstream.py",),
    "benchmarks": ("integration/benchmarks/",),
}
"""Tests that CI leaves out, by the change that requires them; further ones carry the mark `slow`."""


def mark_of(path: Path, node_id: str, marks: set[str]) -> str | None:
    """Return the mark that a test gets by its place and its marks: `slow`, `runs` or none."""
    name = f"{path.relative_to(TESTS)}{node_id[node_id.find('::') :]}"
    if _is_in(NIGHTLY, name) and "core" not in marks:
        return "slow"
    if "core" in marks:
        return None
    return "runs" if "statistical" in marks or _is_in(FURTHER, name) else None


def _is_in(suite: dict[str, tuple[str, ...]], name: str) -> bool:
    return any(
        name.startswith(beginning) for beginnings in suite.values() for beginning in beginnings
    )
