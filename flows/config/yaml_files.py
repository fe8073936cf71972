"""Reads the YAML that users write: a key that is written twice is an error, as the last one would win silently."""

from __future__ import annotations

from typing import Any

import yaml

from connectors.interfaces.errors import ConfigError

_MERGE = "tag:yaml.org,2002:merge"


def parse_yaml(text: str, source: str) -> Any:
    """Return the values of a YAML text.

    Args:
        text: the YAML.
        source: the file or option that messages name.

    Raises:
        ConfigError: a key is written twice; names source, line and key.
        yaml.YAMLError: the text is not YAML; its message names source and line.
    """
    loader = _Loader(text)
    loader.name = source
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with each key of a mapping written once."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; what a merge (<<) brings in is added later and may be overwritten."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                raise ConfigError(
                    f"{self.name}, line {line}: the key '{key.value}' is written twice, first in line {lines[name]}. "
                    "Remove one of the two"
                )
            lines[name] = line
        return node
