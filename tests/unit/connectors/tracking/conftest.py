from tests.support.servers.mlflow import empty_store, store  # noqa: F401
