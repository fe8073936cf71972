from tests.support.servers.mlflow import _no_settings_of_the_machine, empty_store, server, store  # noqa: F401
