"""Parses user-written YAML; refuses duplicate keys, of which PyYAML silently uses the last."""

from functools import lru_cache
from pathlib import Path
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
    # Not yaml.load: messages name the file through the loader.
    loader = _Loader(text)
    loader.name = source
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def read_yaml(path: Path) -> Any:
    """Return the values of a YAML file, cached until it changes: copy them before a change.

    Raises ConfigError if it cannot be read.
    """
    # Time and size are part of the cache's key: a changed file is read again.
    try:
        state = path.stat()
        return _read(path, state.st_mtime_ns, state.st_size)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: there is no such file. Shipped configurations are in deployments/configs"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder. Give the path of a YAML file") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}). Check its permissions"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: is not UTF-8 text from byte {error.start} on. Save it as UTF-8"
        ) from None
    except yaml.MarkedYAMLError as error:
        line = ""
        if error.problem_mark:
            line = f", line {error.problem_mark.line + 1}"
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(
            f"{path}{line}: is not YAML ({reason}). Correct it, or quote text with special characters"
        ) from None
    except yaml.YAMLError as error:  # a character that YAML does not permit
        raise ConfigError(
            f"{path}: is not YAML ({str(error).splitlines()[0]}). Save it as plain text"
        ) from None


@lru_cache(maxsize=64)
def _read(path: Path, _changed: int, _size: int) -> Any:
    return parse_yaml(path.read_text(encoding="utf-8"), str(path))


def line_of(path: Path, field: str) -> int | None:
    """Return the line of a field such as `plms.0.name`, or of its nearest group; None if it is not in the file."""
    node = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    line = None
    for part in field.split("."):
        if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line + 1
            continue
        if not isinstance(node, yaml.MappingNode):
            break
        pairs = [(key, value) for key, value in node.value if key.value == part]
        if not pairs:
            break
        line = pairs[0][0].start_mark.line + 1
        node = pairs[0][1]
    return line


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, without duplicate keys in a mapping and without invalid dates and numbers."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; ConfigError for an unquoted text that resembles a date or number, such as 2024-13-45."""
        try:
            return super().construct_object(node, deep)
        # PyYAML raises AttributeError for a text with the tag !!timestamp that is no time.
        except (ValueError, AttributeError):
            line = node.start_mark.line + 1
            raise ConfigError(
                f"{self.name}, line {line}: '{node.value}' is not a valid date or number. Put it in quotes"
            ) from None

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; keys from a merge (<<) are added later and may be overridden."""
        # Here and not while values are constructed: at that point a mapping has lost its first value.
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            line = key.start_mark.line + 1
            name = (key.tag, key.value)
            if name in lines:
                raise ConfigError(
                    f"{self.name}, line {line}: the key '{key.value}' is written twice, first in line {lines[name]}. "
                    "Remove one of the two"
                )
            lines[name] = line
        return node
