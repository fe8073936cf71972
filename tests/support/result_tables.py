"""Where tests leave what people look at: tables and pictures."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.paths import OUTPUT


def table(name: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Write a Markdown table; return its place."""
    lines = [heads, ["---"] * len(heads), *rows]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    place = OUTPUT / f"{name}.md"
    place.write_text("".join(f"| {' | '.join(map(str, line))} |\n" for line in lines), encoding="utf-8")
    return place
