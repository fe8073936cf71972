"""The environment variables of commands that tests and benchmarks start."""

import os


def without_settings() -> dict[str, str]:
    """Return this process's variables without those that configure the product, MLflow or Prefect."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WASP_", "MLFLOW_", "PREFECT_"))
    }
