"""Finds the texts of a form that name a place, by the types of their fields (connectors/interfaces/addresses.py)."""

from collections.abc import Iterable, Iterator, Mapping
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


def annotations_of(kind: type) -> dict[str, object]:
    """Return the annotations of a class of fields, with the marks of their types."""
    if issubclass(kind, BaseModel):
        # pydantic splits Annotated types: the marks of an outer one are in the metadata.
        return {
            name: (field.annotation, *field.metadata) for name, field in kind.model_fields.items()
        }
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}  # type: ignore[arg-type]


def kind_in(annotation: object) -> Kind | None:
    """Return the kind of the texts in a type; None if they name no place."""
    if isinstance(annotation, Kind):
        return annotation
    parts: Iterable[object] = get_args(annotation)
    if isinstance(annotation, tuple):
        parts = annotation
    return next((kind for kind in map(kind_in, parts) if kind is not None), None)


def _inside(value: object, kind: Kind | None, field: str) -> Iterator[NamedAddress]:
    if isinstance(value, BaseModel) or is_dataclass(value):
        yield from addresses_of(value, field)
    elif isinstance(kind, OneOf) and isinstance(value, Mapping):
        yield from (NamedAddress(f"{field}.{name}", kind, str(name)) for name in value)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _inside(part, kind, f"{field}.{name}")
    elif isinstance(value, list | tuple):
        for position, part in enumerate(value):
            yield from _inside(part, kind, f"{field}.{position}")
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
    # A connector of another package may describe neither its model nor its options: then any text may be an address.
    kind: Kind | None = AddressKind.UNKNOWN
    if hasattr(connector, "model_type"):
        kind = kind_in(connector.model_type)
    yield from _inside(plm.model, kind, f"{field}.model")
    if not hasattr(connector, "options_of"):
        yield from _inside(plm.connector_options, AddressKind.UNKNOWN, field)
        return
    options = connector.options_of(
        ModelSpec(plm.name, plm.connector, plm.model, plm.connector_options)
    )
    vendor = Address("", "")
    if hasattr(connector, "vendor_of"):
        vendor = connector.vendor_of(plm.model)
    named = list(addresses_of(options, field))
    endpoints: dict[tuple[str, str], NamedAddress] = {}
    for address in named:
        # Each place once: a single `endpoint` is also the only one of `endpoints`.
        if address.kind is AddressKind.ENDPOINT and address.value:
            endpoints.setdefault((address.value.rstrip("/"), address.key), address)
    yield from (replace(address, vendor=(vendor.url, vendor.key)) for address in endpoints.values())
    # A key is checked with the endpoint that gets it; without an endpoint nobody knows where it goes.
    checked = [AddressKind.ENDPOINT]
    if endpoints:
        checked.append(AddressKind.KEY)
    yield from (address for address in named if address.kind not in checked)


def _with_key(options: object, address: NamedAddress) -> NamedAddress:
    """Return an endpoint with the key of the same group of fields."""
    if address.kind is not AddressKind.ENDPOINT or address.key:
        return address
    return replace(address, key=getattr(options, "key", ""))


def _unknown(kind: type, name: str) -> Kind | None:
    # A method of another package inherits most of its fields: the class that declares the field decides.
    owner = next(
        (base for base in kind.__mro__ if name in vars(base).get("__annotations__", {})), kind
    )
    if owner.__module__.startswith(OURS):
        return None
    return AddressKind.UNKNOWN
