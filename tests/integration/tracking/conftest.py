from tests.support.servers.mlflow import empty_store, server, store  # noqa: F401
