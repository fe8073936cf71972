"""The flow of a model's own workers: each model can have a work pool, for example of machines with its GPU.

Run and workers share artifacts, ledger and its key (docs/guides/machines.md); texts travel through the artifact store,
never through Prefect.
"""

from typing import Any

from prefect import flow, runtime
from pydantic import TypeAdapter

from connectors.interfaces.json_values import Json
from connectors.interfaces.redaction import guard_logs
from flows.catalog import find_flow
from flows.config.files import check_config
from flows.engine.server import require_addresses
from flows.engine.tools import RunName, reopened
from flows.runtime.stores import SharedStores
from tasks.steps.values import scope_name
from tasks.writing.generate import WriteJob
from tasks.writing.texts import write_samples


def flow_run_name() -> str:
    """Return the name of a flow run: the model, the iteration and the part of its texts."""
    job = runtime.flow_run.parameters["job"]
    return f"write {job['plm']} {scope_name(job['iteration'], job.get('part', ''))}"


@flow(flow_run_name=flow_run_name)
def write_texts(config: Json, run: dict[str, str], stores: dict[str, str], job: Json) -> str:
    """Write the texts of one model in one iteration to the artifact store of a run, which starts this flow.

    Returns why: computed now, or reused.
    """
    guard_logs()
    checked: Any = check_config(find_flow(run["flow"]).config, config, "config")
    name = RunName(**run)
    parts = SharedStores(**stores)
    texts = TypeAdapter(WriteJob).validate_python(job)
    # All four parameters come from a form of the Prefect server, which anybody with its account can fill in.
    for form in (checked, name, parts, texts):
        require_addresses(form)
    return write_samples(reopened(checked, name, parts), texts)[1]
