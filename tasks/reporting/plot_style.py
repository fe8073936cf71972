"""How figures of a report look: one drawing for a page in light or dark, and for a white picture."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any, Literal

Form = Literal["svg", "png"]
PALETTE = (
    "#2f7fd6",
    "#d9771e",
    "#2a9d6f",
    "#8b63d6",
    "#d1495b",
    "#1896a8",
    "#a8761f",
    "#c75b9b",
    "#76871f",
    "#7d8794",
)
"""Told apart on white and on near-black; the first three also by those who confuse red and green."""
MARKERS = "osD^vPX<>*"
INK = "#010203"  # stands for the colour of the page's text, which only the page knows
_PAPER_INK = "#1c2430"
_IN_A_LINE = 4

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def picture(name: str, size: tuple[float, float], draw: Callable[[Any], None], form: Form) -> bytes:
    """Return what `draw(figure)` draws on a figure of `size` inches; equal drawings give equal bytes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings = _SETTINGS | {"svg.hashsalt": f"wasp-{name}"}
    if form == "png":
        settings |= {key: _PAPER_INK for key, value in settings.items() if value == INK}
        settings |= {"savefig.facecolor": "white"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        buffer = io.BytesIO()
        if form == "png":
            figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
            return buffer.getvalue()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _for_a_page(buffer.getvalue().decode()).encode()


def _for_a_page(svg: str) -> str:
    """Strip what a page does not need and let the page's own colour be the ink."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'(<svg\b[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    svg = re.sub(r'(<svg\b[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    svg = re.sub(r' id="[A-Za-z][\w.]*_\d{1,3}"', "", svg)  # numbered names repeat from figure to figure
    svg = re.sub(r' xmlns(?::xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
    return svg.replace(INK, "currentColor").strip()


def bare(axes: Any) -> None:
    """Leave an axes without ticks and frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def lines_of(axes: Any, title: str) -> None:
    """Give an axes its title and faint horizontal lines."""
    axes.set_title(title)
    axes.grid(axis="y", color=axes.spines["left"].get_edgecolor(), alpha=0.13, linewidth=0.6)


def legend_below(axes: Any, entries: int) -> None:
    """Put the legend under the axes, in as many columns as there is room for."""
    columns = entries if entries <= _IN_A_LINE else -(-entries // 2) if entries <= 2 * _IN_A_LINE else _IN_A_LINE
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns, handlelength=1.3, columnspacing=1.1, fontsize=8
    )
