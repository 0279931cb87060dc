import type { Annotations, Data, Layout, Shape } from 'plotly.js';
import { escaped } from '../charts/escaped';
import { IThemeLook } from '../charts/look';
import { lastSecond } from './cursor';
import { IReport } from './data';
import { IScale, roundMarks, sizeText, timeScaleFor } from './units';

/** Around the plot, in pixels: the cursor is drawn beside Plotly and has to agree. */
export const MARGIN = { l: 36, r: 10, t: 19, b: 20 };
const FONT_PX = 10;
/** A character's mean width at that size. */
const CHARACTER_PX = 5.6;
/** Phases narrower than these are not shaded, not separated. */
const LEAST_PX = 1.5;
const SEPARATED_PX = 14;
/** Above the peak, for its label. */
const HEADROOM = 1.17;
const GRID_STEPS = 3;
/** Above the axis of bytes, whose unit it names. */
const CORNER: Partial<Annotations> = {
  xref: 'paper',
  yref: 'paper',
  x: 0,
  y: 1,
  xanchor: 'right',
  yanchor: 'bottom',
  showarrow: false,
  font: { size: FONT_PX }
};

export interface IReportLook extends IThemeLook {
  color: (category: string) => string;
}

export interface IReportChart {
  report: IReport;
  scale: IScale;
  width: number;
  height: number;
}

export interface IFigure {
  data: Data[];
  layout: Partial<Layout>;
}

/** Live bytes over time by category, the peak marked, the phases shaded. Pure. */
export function reportFigure(chart: IReportChart, look: IReportLook): IFigure {
  const { report, scale, width, height } = chart;
  const { curve } = report;
  const end = lastSecond(report);
  const time = timeScaleFor(end);
  const x = curve.time_s.map(seconds => seconds / time.seconds);
  const bands = curve.series.map((series): Data => ({
    type: 'scatter',
    mode: 'lines',
    name: escaped(series.name),
    x,
    y: series.bytes.map(bytes => bytes / scale.size),
    stackgroup: 'bytes',
    hoverinfo: 'skip',
    // Bytes stay as they are until the next event.
    line: { width: 0, color: look.color(series.name), shape: 'hv' },
    fillcolor: look.color(series.name)
  }));
  const peakX = report.peak_s / time.seconds;
  const peakY = report.peak_bytes / scale.size;
  const dot: Data = {
    type: 'scatter',
    mode: 'markers',
    x: [peakX],
    y: [peakY],
    hoverinfo: 'skip',
    cliponaxis: false,
    marker: { size: 6, color: look.text, line: { width: 1.5, color: look.background } }
  };
  // The corner belongs to the other axis.
  const times = roundMarks(end / time.seconds, Math.max(4, width / 130)).slice(1);
  const top = HEADROOM * peakY || 1;
  const phases = phaseMarks(chart, end, time.seconds, look);
  return {
    data: [...bands, dot],
    layout: {
      width,
      height,
      margin: MARGIN,
      showlegend: false,
      hovermode: false,
      paper_bgcolor: 'rgba(0,0,0,0)',
      plot_bgcolor: 'rgba(0,0,0,0)',
      font: { color: look.text, size: FONT_PX, family: look.fontFamily },
      xaxis: {
        range: [0, end / time.seconds],
        showgrid: false,
        zeroline: false,
        tickmode: 'array',
        tickvals: times,
        // A dry run's times are its own.
        ticktext: times.map(value =>
          report.recorder === 'dry_run' ? '' : `${value} ${time.unit}`
        ),
        fixedrange: true
      },
      yaxis: {
        range: [0, top],
        gridcolor: look.grid,
        zeroline: false,
        tickmode: 'array',
        tickvals: roundMarks(top, GRID_STEPS),
        fixedrange: true
      },
      shapes: [...phases.shapes, peakLine(peakX, peakY, look)],
      annotations: [
        ...phases.annotations,
        peakLabel(report, peakX, peakY, end / time.seconds),
        { ...CORNER, text: scale.unit }
      ]
    }
  };
}

function peakLine(x: number, y: number, look: IReportLook): Partial<Shape> {
  return {
    type: 'line',
    x0: x,
    x1: x,
    y0: 0,
    y1: y,
    line: { width: 1, color: look.text },
    opacity: 0.75
  };
}

function peakLabel(report: IReport, x: number, y: number, end: number): Partial<Annotations> {
  const share = end > 0 ? x / end : 0;
  return {
    text: `<b>peak ${report.exact ? '' : '≥ '}${sizeText(report.peak_bytes)}</b>`,
    x,
    y,
    yshift: 4,
    yanchor: 'bottom',
    // Near an edge the text would be cut off.
    xanchor: share < 0.1 ? 'left' : share > 0.9 ? 'right' : 'center',
    showarrow: false,
    font: { size: FONT_PX + 1 }
  };
}

/** How strongly a phase is shaded, so that neighbours differ. */
const SHADES: Record<string, number> = {
  forward: 0.05,
  backward: 0.11,
  recompute: 0.18,
  optimizer: 0.05
};

function phaseMarks(
  chart: IReportChart,
  end: number,
  unit: number,
  look: IReportLook
): { shapes: Partial<Shape>[]; annotations: Partial<Annotations>[] } {
  const plot = chart.width - MARGIN.l - MARGIN.r;
  const toPixels = (seconds: number) => (end > 0 ? (seconds / end) * plot : 0);
  const shapes: Partial<Shape>[] = [];
  const annotations: Partial<Annotations>[] = [];
  const taken: [number, number][] = [];
  for (const span of chart.report.spans) {
    const from = toPixels(Math.max(0, span.start_s));
    const to = toPixels(Math.min(end, span.end_s));
    if (to - from < LEAST_PX) {
      continue;
    }
    const across = { xref: 'x', yref: 'paper', x0: span.start_s / unit } as const;
    shapes.push({
      ...across,
      type: 'rect',
      x1: span.end_s / unit,
      y0: 0,
      y1: 1,
      fillcolor: look.text,
      opacity: SHADES[span.name] ?? 0.05,
      line: { width: 0 },
      layer: 'below'
    });
    if (to - from >= SEPARATED_PX) {
      shapes.push({
        ...across,
        type: 'line',
        x1: span.start_s / unit,
        y0: 0,
        y1: 1,
        line: { width: 1, dash: 'dot', color: look.text },
        opacity: 0.4
      });
    }
    const place = labelPlace(span.name, from, to, taken);
    if (place !== null) {
      annotations.push({
        text: escaped(span.name),
        xref: 'x',
        yref: 'paper',
        x: (place / plot) * (end / unit),
        y: 1,
        yanchor: 'bottom',
        xanchor: 'left',
        showarrow: false,
        font: { size: FONT_PX }
      });
    }
  }
  return { shapes, annotations };
}

/** The left edge of a phase's label in its span, clear of the labels before it. */
function labelPlace(
  name: string,
  from: number,
  to: number,
  taken: [number, number][]
): number | null {
  const room = name.length * CHARACTER_PX + 6;
  const place = [from, (from + to - room) / 2, to - room].find(
    left =>
      left >= from &&
      left + room <= to + 1 &&
      taken.every(([begin, end]) => left + room <= begin || left >= end)
  );
  if (place === undefined) {
    return null;
  }
  taken.push([place, place + room]);
  return place;
}
