"""Python interface: run, plan and compare methods, register datasets, read results as pandas or pyarrow.

    from wasp import Dataset, plan, run

    Dataset.register("clinic", "notes.csv", text="note", label="category", declared_rows=1000)
    plan("triage")["epsilon_exact"]
    result = run("triage", {"privacy.epsilon": 2})
    result.texts.head()

A configuration is a file or a name, as on the command line. All functions raise `WaspError` with the message of the
command. The state folder is `.wasp` in the working folder, or WASP_HOME.
"""

from connectors.interfaces.errors import WaspError
from flows.runtime.state_folder import prepare_environment

prepare_environment()  # before the first import of Prefect

from wasp.datasets import Dataset  # noqa: E402
from wasp.results import Comparison, Result, compare, plan, run, runs  # noqa: E402

__all__ = ["Comparison", "Dataset", "Result", "WaspError", "compare", "plan", "run", "runs"]
