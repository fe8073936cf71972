"""Changes of single values of a configuration, as a schedule sends them."""

import pytest

from connectors.interfaces.errors import ConfigError
from flows.catalog import METHODS, find_flow
from flows.config.extends import SHIPPED
from flows.config.files import load_config, with_changes
from flows.methods.wasp.config import WaspConfig

DEMO = load_config(WaspConfig, SHIPPED / "demo.yaml")


def test_a_change_replaces_one_value_and_no_other() -> None:
    changed = with_changes(DEMO, ["privacy.epsilon=2", "plms.0.name=first"])
    assert (changed.privacy.epsilon, changed.plms[0].name) == (2.0, "first")
    privacy = changed.privacy.model_copy(update={"epsilon": DEMO.privacy.epsilon})
    assert changed.model_copy(update={"privacy": privacy, "plms": DEMO.plms}) == DEMO
    assert with_changes(DEMO, None) is DEMO


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("privacy.epsilon=-2", "changes:.*privacy.epsilon"),
        ("privacy.epsilom=2", "did you mean 'epsilon'"),
        ("epsilon", "write it as name=value"),
        ("plms.0.key=sk-abcdefghijklmnopqrstuvwx", "plms.0.key"),
    ],
)
def test_a_wrong_change_is_one_clear_error(change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){message}"):
        with_changes(DEMO, [change])


def test_every_method_takes_changes_and_refuses_keys_in_its_schema() -> None:
    from prefect.utilities.callables import parameter_schema

    for method in METHODS:
        schema = parameter_schema(find_flow(method).flow()).model_dump()
        assert "pattern" in str(schema["properties"]["changes"]), method
        assert schema["properties"]["changes"]["description"], method
