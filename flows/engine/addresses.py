"""Finds the texts of a form that name a place, by the types of their fields (connectors/interfaces/addresses.py)."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

from connectors.interfaces.addresses import AddressKind, NamedAddress, OneOf
from connectors.interfaces.models import ModelSpec
from connectors.models.base.registry import connectors
from connectors.models.vendors.options import Address
from flows.config.models import Plm

Kind = AddressKind | OneOf
OURS = ("connectors.", "flows.", "tasks.")
"""Packages whose fields all have a type; a text without one in another package has an unknown meaning."""


def addresses_of(group: Any, field: str = "") -> Iterator[NamedAddress]:
    """Yield each text of a group of fields, a pydantic model or a dataclass, that names a place."""
    if isinstance(group, Plm):
        yield from _of_model(group, field)
        return
    for name, annotation in annotations_of(type(group)).items():
        kind = kind_in(annotation) or _unknown(type(group), name)
        for address in _inside(getattr(group, name), kind, f"{field}.{name}".lstrip(".")):
            yield _with_key(group, address)


def annotations_of(kind: type) -> dict[str, Any]:
    """Return the annotations of a class of fields, with the marks of their types."""
    if issubclass(kind, BaseModel):
        return {
            name: (field.annotation, *field.metadata) for name, field in kind.model_fields.items()
        }
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}  # type: ignore[arg-type]


def kind_in(annotation: Any) -> Kind | None:
    """Return the kind of the texts in a type; None if they name no place."""
    if isinstance(annotation, Kind):
        return annotation
    parts = annotation if isinstance(annotation, tuple) else get_args(annotation)
    return next((kind for kind in map(kind_in, parts) if kind is not None), None)


def _inside(value: Any, kind: Kind | None, field: str) -> Iterator[NamedAddress]:
    if isinstance(value, BaseModel) or is_dataclass(value):
        yield from addresses_of(value, field)
    elif isinstance(kind, OneOf) and isinstance(value, Mapping):
        yield from (NamedAddress(f"{field}.{name}", kind, str(name)) for name in value)
    elif isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, part in items:
            yield from _inside(part, kind, f"{field}.{name}")
    elif isinstance(value, str) and kind is not None:
        yield NamedAddress(field, kind, value)


def _of_model(plm: Plm, field: str) -> Iterator[NamedAddress]:
    """Yield the addresses of a language model, whose connector knows the meaning of `model` and options.

    ConfigError if an option is invalid. Nothing for a missing connector, which the check of the model refuses.
    """
    point = connectors().get(plm.connector)
    if point is None:
        return
    try:
        connector = point.load()
    except ImportError:
        return
    kind = (
        kind_in(connector.model_type) if hasattr(connector, "model_type") else AddressKind.UNKNOWN
    )
    yield from _inside(plm.model, kind, f"{field}.model")
    if not hasattr(connector, "options_of"):
        yield from _inside(plm.connector_options, AddressKind.UNKNOWN, field)
        return
    options = connector.options_of(
        ModelSpec(plm.name, plm.connector, plm.model, plm.connector_options)
    )
    vendor = connector.vendor_of(plm.model) if hasattr(connector, "vendor_of") else Address("", "")
    named = list(addresses_of(options, field))
    endpoints: dict[tuple[str, str], NamedAddress] = {}
    for address in named:
        if (
            address.kind is AddressKind.ENDPOINT and address.value
        ):  # `endpoint` is also the only one of `endpoints`
            endpoints.setdefault((address.value.rstrip("/"), address.key), address)
    yield from (replace(address, vendor=(vendor.url, vendor.key)) for address in endpoints.values())
    # a key is checked with the endpoint that gets it; without an endpoint nobody knows where it goes
    checked = (AddressKind.ENDPOINT, AddressKind.KEY) if endpoints else (AddressKind.ENDPOINT,)
    yield from (address for address in named if address.kind not in checked)


def _with_key(options: Any, address: NamedAddress) -> NamedAddress:
    """Return an endpoint with the key of the same group of fields."""
    is_endpoint = address.kind is AddressKind.ENDPOINT and not address.key
    return replace(address, key=getattr(options, "key", "")) if is_endpoint else address


def _unknown(kind: type, name: str) -> Kind | None:
    owner = next(
        (base for base in kind.__mro__ if name in vars(base).get("__annotations__", {})), kind
    )
    return None if owner.__module__.startswith(OURS) else AddressKind.UNKNOWN
