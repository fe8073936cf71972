"""Finished files of a run: references and content keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.interfaces.content_keys import digest


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A finished file: path below the state folder, content hash, key, row count."""

    path: str
    sha256: str
    key: str
    step: str
    rows: int
    reused: bool = False


@dataclass(frozen=True, slots=True)
class StepKey:
    """The inputs of a step's result: name, version, parameters, input content hashes."""

    step: str
    version: int
    parameters: Mapping[str, object] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """64 hexadecimal digits; equal keys mean equal results."""
        return digest(self)
