"""Libraries that the server of `command_forks` loads once, with the state that they create once in a process.

Prefect and `flows` are not loaded: they read their environment on import, and each call has its own. The libraries that
Prefect imports are, and what of `tasks` and `connectors` every run imports.
"""

import os
import sys
from pathlib import Path

PATH = [str(Path(entry).resolve()) for entry in sys.path]
"""Where the server finds modules; a test process adds folders of its own to its path."""
LIBRARIES = (
    "pandas pyarrow.parquet sqlalchemy.dialects.sqlite sqlalchemy.dialects.postgresql yaml typer httpx jinja2 "
    "matplotlib.pyplot scipy.stats sklearn.linear_model dp_accounting.pld opendp.prelude mlflow.pyfunc "
    "mlflow.artifacts mlflow.store.tracking.sqlalchemy_store alembic.config pyarrow.dataset "
    "sklearn.feature_extraction.text "
    # imported by Prefect
    "anyio._backends._asyncio coolname fsspec graphviz griffe h2.connection jsonschema pathspec pendulum pydantic.v1 "
    "pydantic_settings trio websockets.asyncio.client"
)
OURS = (
    "connectors.artifacts.store connectors.ledger.ledger connectors.models.ngram.model connectors.rows.sources "
    "connectors.tracking.mlflow_run tasks.evaluation.baseline tasks.guidance.density tasks.guidance.evolution "
    "tasks.private.density.step tasks.private.votes.step tasks.reporting.report tasks.reporting.terminal "
    "tasks.writing.texts"
)
# The command sets these before it imports MLflow.
os.environ |= {
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
}
# Nothing here needs polars; MLflow imports it where it is installed, and it starts threads, which a fork would lose.
sys.modules["polars"] = None
for library in f"{LIBRARIES} {OURS}".split():
    __import__(library)
del sys.modules["polars"]

import matplotlib.pyplot as plt  # noqa: E402
from mlflow.utils import requirements_utils  # noqa: E402

requirements_utils._init_modules_to_packages_map()  # a list of all packages
figure, axes = plt.subplots()
axes.set_title("warm")
figure.savefig(os.devnull, format="svg")  # its fonts
plt.close(figure)
threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").glob("*")]
if (
    len([name for name in threads if name != "jemalloc_bg_thd"]) > 1
):  # pyarrow's allocator starts its thread again
    raise RuntimeError(f"threads run after the imports, which a fork would lose: {threads}")
