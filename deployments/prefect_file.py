"""Writes prefect.yaml from the registry of deployments: `make deployments`, or python -m deployments.prefect_file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deployments.registry import CONCURRENCY, ENVIRONMENT, POOL, PULL_STEPS, Deployment, deployments

PLACE = Path(__file__).with_name("prefect.yaml")
HEAD = """\
# Every flow as a deployment, for `prefect deploy --all --prefect-file deployments/prefect.yaml`, which discards what
# people edited in the UI; `make up` (python -m deployments.register) keeps it.
# Made from flows/catalog.py and deployments/configs by `make deployments`: change those, not this file.
# WASP_HOME, MLFLOW_TRACKING_URI, WASP_LEDGER_URL and WASP_DATA are the worker's: they differ between machines.
"""


class _Plain(yaml.SafeDumper):
    """Writes equal values twice instead of as anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  (the name is the library's)
        return True


def render() -> str:
    """Return the text of prefect.yaml."""
    values = {
        "name": "wasp-synth",
        "pull": PULL_STEPS,
        "deployments": [_plain(one) for one in deployments()],
    }
    return HEAD + yaml.dump(values, Dumper=_Plain, sort_keys=False, width=116, allow_unicode=True)


def _plain(one: Deployment) -> dict[str, Any]:
    return {
        "name": one.name,
        "version": one.version,
        "entrypoint": one.entrypoint,
        "description": one.description,
        "tags": list(one.tags),
        "parameters": one.parameters,
        "schedules": one.schedules,
        "concurrency_limit": dict(CONCURRENCY),
        "work_pool": {"name": POOL, "job_variables": {"env": dict(ENVIRONMENT)}},
    }


def main() -> None:
    """Write the file."""
    PLACE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
