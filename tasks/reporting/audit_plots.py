"""Figures of an audit: lower bounds beside the claims, and how well canaries of a whole run were told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.reporting.plot_style import MARKERS, PALETTE, Form, legend_below, lines_of, picture

_WIDE = 6.4
_SQUARE = (5.0, 4.8)


def pictures(result: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the figures of an audit as PNG, by name."""
    found = {"audit-bounds": bounds_plot(result, "png")}
    if result.get("pipeline"):
        found["audit-canaries"] = canaries_plot(result["pipeline"], "png")
    return found


def bounds_plot(result: Mapping[str, Any], form: Form = "svg") -> bytes:
    """Epsilon stated, claimed and proven at least, a line per mechanism; what is red is drawn red."""
    lines = [*result["mechanisms"], *([result["pipeline"]] if result.get("pipeline") else [])]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = list(range(len(lines)))[::-1]
        proven = [one["epsilon_proven"] for one in lines]
        colours = [PALETTE[0] if one["passed"] else PALETTE[4] for one in lines]
        axes.barh(places, proven, 0.5, color=colours, label="proven at least")
        axes.plot([one["epsilon_claimed"] for one in lines], places, "D", color=PALETTE[1], label="claimed")
        stated = [one["epsilon_stated"] for one in lines]
        axes.plot(stated, places, "|", color=PALETTE[9], markersize=16, markeredgewidth=2, label="stated")
        axes.set_yticks(places, [one["mechanism"] for one in lines])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(left=0)
        axes.set_title("Epsilon: what attacks prove beside what is claimed")
        legend_below(axes, 3)

    return picture("audit-bounds", (_WIDE, 1.6 + 0.34 * len(lines)), draw, form)


def canaries_plot(whole: Mapping[str, Any], form: Form = "svg") -> bytes:
    """True over false positive rate of each attack on a whole run; the diagonal is guessing."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=PALETTE[9], linestyle="--", linewidth=1)
        for number, one in enumerate(whole["attacks"]):
            label = f"{one['what']}: AUC {one['auc']:.3f} ({one['interval'][0]:.3f} to {one['interval'][1]:.3f})"
            look = {"color": PALETTE[number], "marker": MARKERS[number], "markevery": 0.12}
            axes.plot([x for x, _ in one["curve"]], [y for _, y in one["curve"]], label=label, **look)
        lines_of(axes, "Canaries that took part and were found, over others taken for them")
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="false positive rate", ylabel="true positive rate")
        axes.legend(loc="lower right", fontsize=8)

    return picture("audit-canaries", _SQUARE, draw, form)
