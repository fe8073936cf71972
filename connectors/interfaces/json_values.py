"""JSON objects where they enter or leave the program."""

from typing import Any

Json = dict[str, Any]
"""An object of a file, a database or a server: its shape is another program's, so each reader checks what it uses."""
