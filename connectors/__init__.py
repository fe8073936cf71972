"""The outside world: language models, embedders, rows, files, budget book, tracking."""

from connectors.interfaces.threads import settle_environment

# Here, because every process of a run (command, worker, flow run, cluster) imports this package before torch.
settle_environment()
