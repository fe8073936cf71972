"""Writes prefect.yaml from the registry of deployments.

Run `make deployments` or `python -m deployments.prefect_file`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deployments.registry import CONCURRENCY, ENVIRONMENT, POOL, PULL_STEPS, Deployment, deployments

PREFECT_FILE = Path(__file__).with_name("prefect.yaml")
HEAD = """\
# All flows as deployments, for `prefect deploy --all --prefect-file deployments/prefect.yaml`. That command discards
# edits from the UI; `make up` (python -m deployments.register) preserves them.
# Generated from flows/catalog.py and deployments/configs by `make deployments`. Edit those, not this file.
# WASP_HOME, MLFLOW_TRACKING_URI, WASP_LEDGER_URL and WASP_DATA differ between machines: set them for the worker.
"""


class _Plain(yaml.SafeDumper):
    """YAML dumper that repeats equal values instead of writing anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  (the name is the library's)
        return True


def render() -> str:
    """Return the text of prefect.yaml."""
    values = {
        "name": "wasp-synth",
        "pull": PULL_STEPS,
        "deployments": [_plain(deployment) for deployment in deployments()],
    }
    return HEAD + yaml.dump(values, Dumper=_Plain, sort_keys=False, width=116, allow_unicode=True)


def _plain(deployment: Deployment) -> dict[str, Any]:
    return {
        "name": deployment.name,
        "version": deployment.version,
        "entrypoint": deployment.entrypoint,
        "description": deployment.description,
        "tags": list(deployment.tags),
        "parameters": deployment.parameters,
        "schedules": deployment.schedules,
        "concurrency_limit": dict(CONCURRENCY),
        "work_pool": {"name": POOL, "job_variables": {"env": dict(ENVIRONMENT)}},
    }


def main() -> None:
    """Write prefect.yaml."""
    PREFECT_FILE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
