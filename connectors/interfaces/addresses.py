"""Types of the texts that name a place: a file, a host, or something that ships or is stored.

A field that holds such a text says so by its type. On a server for others `flows.engine.server` checks every text of
these types before anything is read or sent.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any


class AddressKind(Enum):
    """The meaning of a text that names a place."""

    FILE = "file or folder"
    BASE = "folder with files that other fields name"
    TASK = "shipped task, or its file"
    CONFIG = "shipped configuration, or its file"
    MODEL = "model of the hub or of the package, or its folder"
    EXCHANGE = "folder, or bucket of a listed host"
    ENDPOINT = "URL of a language model"
    TRACKING = "URL of MLflow"
    CLUSTER = "URL of a Dask scheduler"
    KEY = "reference to the key of an endpoint"
    SHIPPED = "rows of the package"
    STATE = "state folder of this process"
    STORE = "artifact store of this process"
    NAME = "name of something in the state folder"
    UNKNOWN = "text of another package, of unknown meaning"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Kind of a mapping whose names must be some of `names`, because others move or redirect a request."""

    names: frozenset[str]


PublicFile = Annotated[str, AddressKind.FILE]
"""A file or folder that is read without noise: `builtin:`, `hf://`, or a path."""
BaseFolder = Annotated[str, AddressKind.BASE]
TaskName = Annotated[str, AddressKind.TASK]
ConfigName = Annotated[str, AddressKind.CONFIG]
ModelName = Annotated[str, AddressKind.MODEL]
ExchangeAddress = Annotated[str, AddressKind.EXCHANGE]
Host = Annotated[str, AddressKind.ENDPOINT]
"""The URL of a language model: its vendor's, or that of a host that the operator lists."""
TrackingHost = Annotated[str, AddressKind.TRACKING]
ClusterHost = Annotated[str, AddressKind.CLUSTER]
KeyReference = Annotated[str, AddressKind.KEY]
ShippedRows = Annotated[str, AddressKind.SHIPPED]
StateFolder = Annotated[str, AddressKind.STATE]
StoreAddress = Annotated[str, AddressKind.STORE]
FolderName = Annotated[str, AddressKind.NAME]


@dataclass(frozen=True, slots=True)
class NamedAddress:
    """A text that names a place, with its field.

    `vendor`: URL and key reference of the model's vendor. `key`: reference to the key that an endpoint gets.
    """

    field: str
    kind: "AddressKind | OneOf"
    value: Any
    vendor: tuple[str, str] = ("", "")
    key: str = ""
