import * as React from 'react';
import { themeLook } from '../../charts/look';
import { loadPlotly, Plotly } from '../../charts/plotly';
import { categoryColor, currentTheme } from '../../palette';
import { lastSecond, moved, phaseAt, pointAt, totalAt } from '../cursor';
import { IReport } from '../data';
import { MARGIN, reportFigure } from '../figure';
import { categoryLabel } from '../phrases';
import { useTheme } from '../theme';
import { IScale, sizeText, timeScaleFor, timeText } from '../units';

const HEIGHT = 190;

interface IChartProps {
  report: IReport;
  scale: IScale;
  /** The point looked at; `null`: the peak. */
  point: number | null;
  onPoint: (point: number | null) => void;
}

/** The timeline. The pointer or the arrow keys choose the time that the legend speaks of. */
export function Chart(props: IChartProps): JSX.Element {
  const { report, point, onPoint } = props;
  const { curve } = report;
  const frame = React.useRef<HTMLDivElement>(null);
  const { target, problem, width } = usePlot(report, props.scale);
  const end = lastSecond(report);
  const plot = Math.max(1, width - MARGIN.l - MARGIN.r);
  const peakPoint = pointAt(curve, report.peak_s);
  const seconds = point === null ? report.peak_s : (curve.time_s[point] ?? 0);

  const onPointer = (event: React.PointerEvent) => {
    const left = frame.current?.getBoundingClientRect().left ?? 0;
    const share = Math.min(1, Math.max(0, (event.clientX - left - MARGIN.l) / plot));
    onPoint(pointAt(curve, share * end));
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    const next = moved(event.key, point ?? peakPoint, curve.time_s.length);
    if (next !== undefined) {
      event.preventDefault();
      onPoint(next);
    }
  };

  return (
    <div
      ref={frame}
      className="jp-VramReport-chart"
      role="slider"
      tabIndex={0}
      aria-label="Memory over time"
      aria-valuemin={0}
      aria-valuemax={end}
      aria-valuenow={seconds}
      aria-valuetext={spoken(report, point ?? peakPoint, seconds)}
      onPointerMove={onPointer}
      onPointerDown={onPointer}
      onPointerLeave={() => onPoint(null)}
      onKeyDown={onKeyDown}
      onBlur={() => onPoint(null)}
    >
      {problem ? (
        <p className="jp-Vram-reason">{problem}</p>
      ) : (
        <div ref={target} className="jp-VramReport-plot" style={{ height: HEIGHT }} aria-hidden />
      )}
      {point !== null && !problem && (
        <i
          className="jp-VramReport-cursor"
          style={{
            left: MARGIN.l + (end > 0 ? seconds / end : 0) * plot,
            top: MARGIN.t,
            bottom: MARGIN.b
          }}
        />
      )}
    </div>
  );
}

/** A point in words, largest first. */
function spoken(report: IReport, point: number, seconds: number): string {
  const { curve } = report;
  const parts = curve.series
    .map(series => ({ name: categoryLabel(series.name), bytes: series.bytes[point] ?? 0 }))
    .filter(part => part.bytes > 0)
    .sort((one, other) => other.bytes - one.bytes)
    .map(part => `${part.name} ${sizeText(part.bytes)}`);
  const phase = phaseAt(report, seconds);
  const time = timeText(seconds, timeScaleFor(lastSecond(report)));
  const when = phase === null ? time : `${time}, ${phase}`;
  return `${when}: ${sizeText(totalAt(curve, point))}${parts.length ? `; ${parts.join(', ')}` : ''}`;
}

/** Plotly in an element: fetched when that first comes into sight, redrawn with size and theme. */
function usePlot(
  report: IReport,
  scale: IScale
): { target: React.RefObject<HTMLDivElement>; problem: string | null; width: number } {
  const target = React.useRef<HTMLDivElement>(null);
  const [plotly, setPlotly] = React.useState<Plotly | null>(null);
  const [problem, setProblem] = React.useState<string | null>(null);
  const [width, setWidth] = React.useState(0);
  const theme = useTheme();

  React.useEffect(() => {
    const node = target.current;
    if (!node) {
      return;
    }
    let gone = false;
    const resized = new ResizeObserver(() => setWidth(node.clientWidth));
    resized.observe(node);
    const seen = new IntersectionObserver(entries => {
      if (!entries.some(entry => entry.isIntersecting)) {
        return;
      }
      seen.disconnect();
      loadPlotly().then(
        loaded => gone || setPlotly(() => loaded),
        () => gone || setProblem('The chart could not be loaded; reload the page.')
      );
    });
    seen.observe(node);
    return () => {
      gone = true;
      resized.disconnect();
      seen.disconnect();
    };
  }, []);

  React.useEffect(() => {
    const node = target.current;
    if (plotly && node) {
      return () => plotly.purge(node);
    }
    return undefined;
  }, [plotly]);

  React.useEffect(() => {
    const node = target.current;
    if (!plotly || !node || width === 0) {
      return;
    }
    const look = {
      ...themeLook(node),
      color: (category: string) => categoryColor(category, currentTheme())
    };
    const { data, layout } = reportFigure({ report, scale, width, height: HEIGHT }, look);
    void plotly.react(node, data, layout, { staticPlot: true, displayModeBar: false });
  }, [plotly, report, scale, width, theme.key]);

  return { target, problem, width };
}
