"""The page of an audit: verdict, bounds against claims, findings in plain English."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.reporting import text as words
from tasks.reporting.audit_plots import bounds_plot, canaries_plot
from tasks.reporting.templates import template

TERMS = {
    "stated": "epsilon in the configuration",
    "claimed": "epsilon that an exact accountant computes for the noise that is drawn",
    "proven at least": "largest epsilon that the attack proves; a sound mechanism stays below the claim",
}


def audit_page(result: Mapping[str, Any], sentence: str, remarks: Sequence[str]) -> str:
    """Return the HTML page; equal findings yield equal pages.

    Args:
        result: content of audit.json.
        sentence: the verdict with trials and confidence.
        remarks: notes and, for a red audit, the reasons.
    """
    from markupsafe import Markup

    figures = [("Proven and claimed epsilon", bounds_plot(result, "svg"))]
    whole = result.get("pipeline")
    if whole:
        figures.append(("Detection of canaries in a whole run", canaries_plot(whole, "svg")))
    return template("audit.html.j2").render(
        result=result,
        lines=[*result["mechanisms"], *([whole] if whole else [])],
        sentence=sentence,
        remarks=remarks,
        words=words,
        terms=TERMS,
        figures=[(title, Markup(svg.decode())) for title, svg in figures],  # noqa: S704
    )
