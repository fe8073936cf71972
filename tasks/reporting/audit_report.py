"""The page and the figure of an audit: verdict, bounds against claims, findings in plain English."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.reporting import text as words
from tasks.reporting.plot_style import PALETTE, legend_below, picture
from tasks.reporting.templates import template

TERMS = {
    "stated": "epsilon in the configuration",
    "claimed": "epsilon that an exact accountant computes for the noise that is drawn",
    "proven at least": "largest epsilon that the attack proves; a sound mechanism stays below the claim",
}
_WIDE = 6.4


def audit_page(result: Mapping[str, Any], sentence: str, remarks: Sequence[str]) -> str:
    """Return the HTML page; equal findings yield equal pages.

    Args:
        result: content of audit.json.
        sentence: the verdict with trials and confidence.
        remarks: notes and, for a red audit, the reasons.
    """
    from markupsafe import Markup

    return template("audit.html.j2").render(
        result=result,
        lines=_lines(result),
        sentence=sentence,
        remarks=remarks,
        words=words,
        terms=TERMS,
        figure=Markup(bounds_plot(result).decode()),  # noqa: S704
    )


def _lines(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the findings of each mechanism and of the whole run, if it was attacked."""
    whole = result.get("pipeline")
    return [*result["mechanisms"], *([whole] if whole else [])]


def bounds_plot(result: Mapping[str, Any]) -> bytes:
    """Draw stated, claimed and proven epsilon per mechanism; failed audits are red."""
    lines = _lines(result)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        positions = list(range(len(lines)))[::-1]
        proven = [line["epsilon_proven"] for line in lines]
        colours = [PALETTE[0] if line["passed"] else PALETTE[4] for line in lines]
        axes.barh(positions, proven, 0.5, color=colours, label="proven at least")
        axes.plot([line["epsilon_claimed"] for line in lines], positions, "D", color=PALETTE[1], label="claimed")
        stated = [line["epsilon_stated"] for line in lines]
        axes.plot(stated, positions, "|", color=PALETTE[9], markersize=16, markeredgewidth=2, label="stated")
        axes.set_yticks(positions, [line["mechanism"] for line in lines])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(left=0)
        axes.set_title("Epsilon: lower bound proven by attacks, and claimed value")
        legend_below(axes, 3)

    return picture("audit-bounds", (_WIDE, 1.6 + 0.34 * len(lines)), draw, "svg")
