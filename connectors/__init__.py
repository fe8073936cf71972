"""Connectors: language models, embedders, rows, files, privacy ledger, tracking."""

from connectors.interfaces.threads import settle_environment

# Every process of a run (command, worker, flow run, cluster) imports this package before torch.
settle_environment()
