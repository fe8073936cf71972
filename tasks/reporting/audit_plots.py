"""Figures of an audit: proven bounds against claims, and canary detection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.reporting.plot_style import MARKERS, PALETTE, Form, legend_below, lines_of, picture

_WIDE = 6.4
_SQUARE = (5.0, 4.8)


def pictures(result: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the figures of an audit as PNG, by name."""
    figures = {"audit-bounds": bounds_plot(result, "png")}
    if result.get("pipeline"):
        figures["audit-canaries"] = canaries_plot(result["pipeline"], "png")
    return figures


def bounds_plot(result: Mapping[str, Any], form: Form = "svg") -> bytes:
    """Draw stated, claimed and proven epsilon per mechanism; failed audits are red."""
    lines = [*result["mechanisms"], *([result["pipeline"]] if result.get("pipeline") else [])]

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

    return picture("audit-bounds", (_WIDE, 1.6 + 0.34 * len(lines)), draw, form)


def canaries_plot(whole: Mapping[str, Any], form: Form = "svg") -> bytes:
    """Draw the ROC curve of each attack on a whole run; the diagonal is guessing."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=PALETTE[9], linestyle="--", linewidth=1)
        for number, attack in enumerate(whole["attacks"]):
            low, high = attack["interval"]
            label = f"{attack['what']}: AUC {attack['auc']:.3f} ({low:.3f} to {high:.3f})"
            look = {"color": PALETTE[number], "marker": MARKERS[number], "markevery": 0.12}
            axes.plot([x for x, _ in attack["curve"]], [y for _, y in attack["curve"]], label=label, **look)
        lines_of(axes, "Detection of canaries: true against false positive rate")
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="false positive rate", ylabel="true positive rate")
        axes.legend(loc="lower right", fontsize=8)

    return picture("audit-canaries", _SQUARE, draw, form)
