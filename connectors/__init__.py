"""Connectors: language models, embedders, rows, files, privacy ledger, tracking."""

from connectors.interfaces.memory import settle_memory
from connectors.interfaces.threads import settle_environment

# Every process of a run (command, worker, flow run, cluster) imports this package before torch and pyarrow.
settle_environment()
settle_memory()
