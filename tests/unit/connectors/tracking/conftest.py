from tests.support.servers.mlflow import _no_settings_of_the_machine, empty_store, store  # noqa: F401
