"""Libraries that the server of `command_forks` loads once, with the state that they create once in a process.

Prefect and our own packages are not loaded: they read their environment on import, and each call has its own.
"""

import os
import sys
from pathlib import Path

PATH = [str(Path(entry).resolve()) for entry in sys.path]
"""Where the server finds modules; a test process adds folders of its own to its path."""
LIBRARIES = (
    "pandas pyarrow.parquet sqlalchemy.dialects.sqlite sqlalchemy.dialects.postgresql yaml typer httpx jinja2 "
    "matplotlib.pyplot scipy.stats sklearn.linear_model dp_accounting.pld opendp.prelude mlflow.pyfunc "
    "mlflow.artifacts mlflow.store.tracking.sqlalchemy_store"
)
# The command sets these before it imports MLflow.
os.environ |= {
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
}
# Nothing here needs polars; MLflow imports it where it is installed, and it starts threads, which a fork would lose.
sys.modules["polars"] = None
for library in LIBRARIES.split():
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
