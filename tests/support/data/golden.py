"""Golden numbers of privacy accounting, computed independently of the product."""

import json
from typing import Any

from tests.support.paths import GOLDEN

VECTORS: dict[str, Any] = json.loads((GOLDEN / "dp_vectors.json").read_text())


def rows(section: str, part: str = "rows") -> list[dict[str, Any]]:
    return list(VECTORS[section][part])
