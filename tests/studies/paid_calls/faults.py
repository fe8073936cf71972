"""What each fault of a server costs: requests, answers billed, completions stored, and the bill beside the purse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from connectors.interfaces.models import ModelSpec
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_faults import BILL, FAULTS, cost
from tests.support.servers.vendor_models import VENDORS

COLUMNS = ("fault", "vendor", "requests", "billed", "stored", "bill", "paid from the purse", "outcome")


def rows() -> Iterator[Sequence[object]]:
    """Let the second of four requests meet each fault, once; yield what it cost."""
    for name, fault in FAULTS.items():
        for vendor in VENDORS:
            paid = cost(fault, partial(_open, vendor))
            bill = f"${paid.billed * BILL:.3f}"
            yield name, vendor, paid.requests, paid.billed, paid.stored, bill, f"${paid.spent:.3f}", paid.outcome


def _open(vendor: str, server: VendorServer, **options: Any) -> Any:
    connector, suffix = VENDORS[vendor]
    return connector.from_spec(
        ModelSpec("writer", vendor, "some-model", {"endpoint": server.url + suffix, "key": "none", **options})
    )
