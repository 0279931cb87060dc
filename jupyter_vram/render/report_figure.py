"""A report's timeline as a Plotly figure, for whoever wants to go on with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_vram.errors import VramError
from jupyter_vram.model.report_data import ReportData
from jupyter_vram.render.colors import LINE, color_of
from jupyter_vram.render.report_words import headline, is_dry_run
from jupyter_vram.render.text import format_bytes

if TYPE_CHECKING:
    import plotly.graph_objects as go  # type: ignore[import-untyped]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SHADES = {"forward": 0.08, "backward": 0.18, "recompute": 0.26}


class PlotlyMissingError(VramError):
    """A figure was asked for, and plotly can't be imported."""


def timeline_figure(data: ReportData) -> go.Figure:
    """Live bytes over time, stacked by category, with the peak marked and the phases shaded.

    Raises:
        PlotlyMissingError: plotly can't be imported.
    """
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise PlotlyMissingError(
            "report.figure() draws with plotly, which can't be imported here: install it with"
            " `%pip install plotly`. The report itself needs none."
        ) from error
    factor, unit = _unit(max(data.peak_bytes, data.end_bytes, 1))
    figure = go.Figure()
    for series in data.curve.series:
        figure.add_trace(
            go.Scatter(
                x=data.curve.time_s,
                y=[count / factor for count in series.bytes],
                name=series.name,
                stackgroup="bytes",
                mode="lines",
                line={"width": 0, "color": color_of(series.name)},
                fillcolor=color_of(series.name),
                text=[format_bytes(count) for count in series.bytes],
                hovertemplate="%{text}",
            )
        )
    for span in data.spans:
        figure.add_vrect(
            x0=span.start_s,
            x1=span.end_s,
            fillcolor=LINE,
            opacity=_SHADES.get(span.name, 0.08),
            line_width=0,
            layer="below",
            annotation_text=span.name,
            annotation_position="top left",
        )
    if data.curve.series:
        bound = "" if data.exact else "≥ "
        figure.add_vline(x=data.peak_s, line={"color": LINE, "width": 1.5})
        figure.add_annotation(
            x=data.peak_s,
            y=1,
            yref="paper",
            yanchor="bottom",
            showarrow=False,
            text=f"<b>peak {bound}{format_bytes(data.peak_bytes)}</b>",
        )
    figure.update_layout(
        title={"text": _escaped(headline(data))},
        hovermode="x unified",
        xaxis={"title": {"text": "order of operations"}, "showticklabels": False}
        if is_dry_run(data)
        else {"title": {"text": "seconds"}},
        yaxis={"title": {"text": unit}, "rangemode": "tozero"},
        legend={"traceorder": "reversed"},
    )
    return figure


def _unit(most: int) -> tuple[int, str]:
    power = 0
    while power < len(_UNITS) - 1 and most >= 1 << (10 * power + 10):
        power += 1
    return 1 << (10 * power), _UNITS[power]


def _escaped(text: str) -> str:
    """Plotly reads a few HTML tags in texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
