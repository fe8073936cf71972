"""Messages about keys that a server refuses."""

import pytest

from connectors.models.vendors.errors import Failure, VendorTarget, classify


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("env:MY_KEY", "the key was refused (HTTP 401). Put a valid key with access to 'm' into 'env:MY_KEY', then"),
        ("none", "the server requires a key (HTTP 401), but `key` is none. Put a valid key with access to 'm' into a"),
    ],
)
def test_the_message_names_where_the_key_belongs(key: str, message: str) -> None:
    assert message in str(classify(Failure(401, None, {}), VendorTarget("plm", "m", "host", key)))
