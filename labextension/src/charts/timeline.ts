import type { Annotations, Data, Layout, LayoutAxis, Shape } from 'plotly.js';
import { amount, inUnit } from '../format';
import { ISeries } from '../owners';
import { Unit } from '../tokens';
import { ICellRun, IHistory } from '../wire';
import { escaped } from './escaped';
import { IThemeLook } from './look';

/** What the theme gives to a timeline. */
export interface IChartLook extends IThemeLook {
  color: (series: ISeries) => string;
}

export interface ITimeline {
  history: IHistory;
  series: ISeries[];
  cells: ICellRun[];
  totalBytes: number | null;
  unit: Unit;
  windowSeconds: number;
  /** Seconds since the epoch: the right edge. */
  now: number;
  height: number;
}

export interface IFigure {
  data: Data[];
  layout: Partial<Layout>;
}

/** A row much later than the one before it: nobody measured in between. */
const GAP_FACTOR = 5;

/** The stacked areas of a device over time, with the cell runs marked beneath. Pure. */
export function timelineFigure(chart: ITimeline, look: IChartLook): IFigure {
  const { history, series, unit } = chart;
  const data = stretches(history, series).flatMap(([from, to], stretch) => {
    const x = history.time.slice(from, to).map(time => new Date(time * 1000));
    return series.map((item): Data => ({
      type: 'scatter',
      mode: 'lines',
      name: item.label,
      x,
      y: item.values.slice(from, to).map(value => inUnit(value, unit)),
      // Within one group Plotly would fill the time between two stretches down to zero.
      stackgroup: `bytes ${stretch}`,
      line: { width: 0.5, color: look.color(item), shape: 'linear' },
      fillcolor: look.color(item),
      hovertemplate: `%{y:.2f} ${unit}<extra>${escaped(item.label)}</extra>`
    }));
  });
  const total = inUnit(chart.totalBytes, unit);
  const runs = cellMarks(chart, look);
  const layout: Partial<Layout> = {
    autosize: true,
    height: chart.height,
    margin: { l: 34, r: 8, t: 8, b: runs.shapes.length ? 46 : 24 },
    showlegend: false,
    hovermode: 'x unified',
    paper_bgcolor: 'rgba(0,0,0,0)',
    plot_bgcolor: 'rgba(0,0,0,0)',
    font: { color: look.text, size: 10, family: look.fontFamily },
    hoverlabel: { bgcolor: look.background, font: { color: look.text, size: 11 } },
    xaxis: {
      type: 'date',
      range: [
        new Date((chart.now - chart.windowSeconds) * 1000),
        new Date(chart.now * 1000)
      ] as never,
      showgrid: false,
      zeroline: false,
      nticks: 4,
      tickformat: '%H:%M:%S',
      fixedrange: true,
      // Not in the type declarations yet.
      ...({ ticklabelstandoff: runs.shapes.length ? 20 : 0 } as object)
    },
    yaxis: {
      // A little more, or the line of the total would be cut off.
      range: total === null ? undefined : [0, 1.02 * total],
      rangemode: 'tozero',
      gridcolor: look.grid,
      zeroline: false,
      ...ticks(chart),
      fixedrange: true
    },
    shapes: runs.shapes,
    annotations: runs.annotations
  };
  return { data, layout };
}

/** Nothing, half and full: the topmost line is the device's total. */
function ticks(chart: ITimeline): Partial<LayoutAxis> {
  const { totalBytes, unit } = chart;
  if (totalBytes === null) {
    return { nticks: 4 };
  }
  const marks = [0, totalBytes / 2, totalBytes];
  return {
    tickmode: 'array',
    tickvals: marks.map(bytes => inUnit(bytes, unit) ?? 0),
    ticktext: marks.map(bytes => amount(bytes, unit).replace(/\.0$/, ''))
  };
}

/** The runs of measured rows, as `[from, to)`: between them nobody measured, or nothing is known. */
function stretches(history: IHistory, series: ISeries[]): [number, number][] {
  // The server measures every 10 s while nobody looks: that is no gap.
  const limit = GAP_FACTOR * Math.max(history.resolution_s, 10);
  const found: [number, number][] = [];
  let last: [number, number] | undefined;
  history.time.forEach((moment, i) => {
    if (!series.some(item => (item.values[i] ?? null) !== null)) {
      last = undefined;
    } else if (last && moment - history.time[i - 1]! <= limit) {
      last[1] = i + 1;
    } else {
      last = [i, i + 1];
      found.push(last);
    }
  });
  return found;
}

function cellMarks(
  chart: ITimeline,
  look: IChartLook
): { shapes: Partial<Shape>[]; annotations: Partial<Annotations>[] } {
  const since = chart.now - chart.windowSeconds;
  const visible = chart.cells.filter(cell => (cell.ended_at ?? chart.now) >= since);
  const shapes = visible.map((cell): Partial<Shape> => {
    const running = cell.ended_at === null;
    // A run of a few milliseconds would be invisible.
    const start = Math.max(cell.started_at, since);
    const end = Math.max(cell.ended_at ?? chart.now, start + chart.windowSeconds / 200);
    return {
      type: 'rect',
      xref: 'x',
      yref: 'paper',
      x0: new Date(start * 1000),
      x1: new Date(end * 1000),
      // In pixels below the axis, whatever the chart's height.
      ysizemode: 'pixel',
      yanchor: 0,
      y0: -3,
      y1: -8,
      fillcolor: running ? look.accent : look.text,
      opacity: running ? 0.9 : 0.45,
      line: { width: 0 }
    };
  });
  return { shapes, annotations: labels(chart, visible, since, look) };
}

/** Labels from the newest run backwards, as long as they don't overlap. */
function labels(
  chart: ITimeline,
  cells: ICellRun[],
  since: number,
  look: IChartLook
): Partial<Annotations>[] {
  const room = chart.windowSeconds / 7;
  const annotations: Partial<Annotations>[] = [];
  let next = Infinity;
  for (const cell of [...cells].reverse()) {
    const start = Math.max(cell.started_at, since);
    const running = cell.ended_at === null;
    const width = running ? 2 * room : room;
    if (start + width > next && annotations.length) {
      continue;
    }
    // Near the right edge there is no room to the right of the mark.
    const rightmost = start + width > chart.now;
    next = rightmost ? chart.now - width : start;
    annotations.push({
      text: `[${cell.execution_count ?? ' '}]${running ? ' running' : ''}`,
      xref: 'x',
      yref: 'paper',
      x: new Date((rightmost ? chart.now : start) * 1000) as never,
      y: 0,
      yshift: -7,
      xanchor: rightmost ? 'right' : 'left',
      yanchor: 'top',
      showarrow: false,
      font: { size: 9, color: look.text }
    });
  }
  return annotations;
}
