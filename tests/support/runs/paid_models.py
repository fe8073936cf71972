"""Paid models in the configuration of a small run."""

from typing import Any

KEY = "sk-planted-7h3k3y-must-not-appear"
PRICE = {"input": 1000.0, "output": 1000.0, "date": "2026-11-01"}


def paid(name: str, connector: str, url: str, **more: Any) -> dict[str, Any]:
    endpoint = f"{url}/v1" if connector == "openai" else url
    plm = {"name": name, "connector": connector, "model": "some-model", "endpoint": endpoint, "key": "env:VENDOR_KEY"}
    return plm | {"price": PRICE, "max_tokens": 60, "options": {"tries": 2}} | more


SHORT = {"method": {"iterations": 2, "samples": 24}}
