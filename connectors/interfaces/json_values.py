"""The type of JSON objects whose keys a stored format, a schema or another program defines."""

from typing import Any

# Values are Any rather than a recursive union: a caller that knows the format reads `value["a"]["b"]` without a cast.
Json = dict[str, Any]
