import * as React from 'react';
import { themeLook } from '../charts/look';
import { IChartLook, ITimeline, timelineFigure } from '../charts/timeline';
import { loadPlotly, Plotly } from '../charts/plotly';
import { currentTheme, palette } from '../palette';

function lookOf(node: HTMLElement): IChartLook {
  const theme = currentTheme();
  return {
    ...themeLook(node),
    color: series => palette.color(series.kind, series.kernelId, theme)
  };
}

const redraws = new WeakMap<Element, () => Promise<void>>();

/** Bring a chart up to date that is out of sight, and is therefore not redrawn. */
export function redraw(chart: Element): Promise<void> {
  return redraws.get(chart)?.() ?? Promise.resolve();
}

/** The chart of one device. The same figures stand as text in the table beside it. */
export function Timeline(props: { chart: ITimeline; label: string; id: string }): JSX.Element {
  const node = React.useRef<HTMLDivElement>(null);
  const plotly = React.useRef<Plotly | null>(null);
  const latest = React.useRef(props.chart);
  const inSight = React.useRef(true);
  const [problem, setProblem] = React.useState<string | null>(null);
  latest.current = props.chart;

  const draw = React.useCallback(async () => {
    const target = node.current;
    if (plotly.current && target && target.clientWidth > 0) {
      const { data, layout } = timelineFigure(latest.current, lookOf(target));
      const config = { displayModeBar: false, responsive: false };
      await plotly.current.react(target, data, layout, config);
    }
  }, []);

  React.useEffect(() => {
    const target = node.current;
    if (!target) {
      return;
    }
    let gone = false;
    loadPlotly().then(
      loaded => {
        if (!gone) {
          plotly.current = loaded;
          void draw();
        }
      },
      () => setProblem('The chart could not be loaded; the figures stand below. Reload the page.')
    );
    const resized = new ResizeObserver(() => void draw());
    resized.observe(target);
    // Sixteen charts at every tick would keep the main thread busy with what nobody sees.
    const seen = new IntersectionObserver(entries => {
      inSight.current = entries[entries.length - 1]?.isIntersecting ?? true;
      if (inSight.current) {
        void draw();
      }
    });
    seen.observe(target);
    redraws.set(target, draw);
    return () => {
      gone = true;
      resized.disconnect();
      seen.disconnect();
      plotly.current?.purge(target);
    };
  }, [draw]);

  React.useEffect(() => {
    if (inSight.current) {
      void draw();
    }
  });

  if (problem) {
    return <p className="jp-Vram-reason">{problem}</p>;
  }
  return (
    <div
      ref={node}
      className="jp-Vram-timeline"
      style={{ height: props.chart.height }}
      role="img"
      aria-label={props.label}
      data-device={props.id}
    />
  );
}
