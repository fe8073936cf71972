"""Style of report figures for light and dark pages and for PNG on white."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
"""Distinguishable on white and near-black; the first three also with red-green colour blindness."""
MARKERS = "osD^vPX<>*"
# Placeholder for the text colour, which only the page knows: no drawing uses this colour otherwise.
INK = "#010203"
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


def picture(
    name: str, size: tuple[float, float], draw: Callable[[Figure], None], form: Form
) -> bytes:
    """Return the image that `draw(figure)` draws; equal drawings yield equal bytes.

    `size`: width and height in inches.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # matplotlib names the parts of an SVG by random numbers without a salt; one page has several figures.
    settings = _SETTINGS | {"svg.hashsalt": f"wasp-{name}"}
    if form == "png":
        settings |= {key: _PAPER_INK for key, value in settings.items() if value == INK}
        # The ink is dark, so a transparent picture could not be read on a dark page.
        settings |= {"savefig.facecolor": "white"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        buffer = io.BytesIO()
        # No date and no version of matplotlib: equal runs have equal files.
        if form == "png":
            figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
            return buffer.getvalue()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _for_a_page(buffer.getvalue().decode()).encode()


def _for_a_page(svg: str) -> str:
    """Remove unneeded SVG parts and use the text colour of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # Twice, for width and height: the page scales the figure by its view box.
    svg = re.sub(r'(<svg\b[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    svg = re.sub(r'(<svg\b[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    # Numbered names repeat from figure to figure, and ids of a page are unique.
    svg = re.sub(r' id="[A-Za-z][\w.]*_\d{1,3}"', "", svg)
    svg = re.sub(r' xmlns(?::xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
    return svg.replace(INK, "currentColor").strip()


def look(number: int) -> dict[str, Any]:
    """Return colour and marker of a series."""
    return {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[number % len(MARKERS)]}


def columns(points: Iterable[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the x and the y of points."""
    pairs = list(points)
    return [x for x, _ in pairs], [y for _, y in pairs]


def bare(axes: Axes) -> None:
    """Remove ticks and frame from an axes."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def lines_of(axes: Axes, title: str) -> None:
    """Add a title and faint horizontal lines to an axes."""
    axes.set_title(title)
    axes.grid(axis="y", color=axes.spines["left"].get_edgecolor(), alpha=0.13, linewidth=0.6)


def short(name: str) -> str:
    """Return the name of a class as it fits beside an axis or in a legend: its beginning and end, if it is long."""
    if len(name) <= 22:
        return name
    return f"{name[:11]}…{name[-10:]}"


def legend_below(axes: Axes, entries: int) -> None:
    """Add the legend below the axes, with as many columns as fit."""
    columns = entries
    if entries > 2 * _IN_A_LINE:
        columns = _IN_A_LINE
    elif entries > _IN_A_LINE:
        # Two lines of nearly equal length.
        columns = -(-entries // 2)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=columns,
        handlelength=1.3,
        columnspacing=1.1,
        fontsize=8,
    )
