"""Parses user-written YAML and refuses duplicate keys.

PyYAML silently uses the last of them.
"""

from __future__ import annotations

from typing import Any

import yaml

from connectors.interfaces.errors import ConfigError

_MERGE = "tag:yaml.org,2002:merge"


def parse_yaml(text: str, source: str) -> Any:
    """Return the values of a YAML text.

    Args:
        text: the YAML.
        source: the file or option to name in messages.

    Raises:
        ConfigError: a duplicate key, with source, line and key.
        yaml.YAMLError: not YAML, with source and line.
    """
    loader = _Loader(text)
    loader.name = source
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, without duplicate keys in a mapping."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; keys from a merge (<<) are added later and may be overridden."""
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
